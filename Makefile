# pg_parallel_apply: the project's targets.  The PGXS build is in pgxs.mk.
#
#	make demo			install what is missing, build, run the demo (KEEP=1 leaves the nodes running)
#	make check			the same, then all tests
#	make all install	build and install only
#	make check-long		the fault tests as long as they are meant to be (about 15 minutes)
#	make torture SECONDS=600	random schema, load and faults on two servers (TORTURE="--seed S ..." for its options)
#	make bench		all benchmarks, short (below 10 minutes); bench/README.md says what selects
#	make bench-full		the same in the sizes of WORKLOADS.md (some hours)
#	make fuzz SECONDS=60
#	make sim SEEDS=100000	the scheduler of parallel apply against its oracle
#	make lint
#	make core-suite DIR=...	PostgreSQL's own subscription tests, from a copy of src/test/subscription
PG_MAJOR ?= 15
# Debian's pg_config in PATH is that of the newest major; looked up late, as setup may install it.
PG_CONFIG ?= $(or $(wildcard /usr/lib/postgresql/$(PG_MAJOR)/bin/pg_config),pg_config)
PGXS_MAKE = $(MAKE) --no-print-directory -s -f pgxs.mk PG_CONFIG=$(PG_CONFIG)
SUDO = $(if $(filter 0,$(shell id -u)),,sudo)
SECONDS ?= 60
SEEDS ?= 5000

.PHONY: all install clean setup-demo setup-check demo check unit sim smoke tap torture check-long fuzz lint \
	setup-bench bench bench-full core-suite

all:
	$(PGXS_MAKE) all

install: all
	$(SUDO) $(PGXS_MAKE) install

clean:
	-$(PGXS_MAKE) clean
	rm -rf build

setup-demo:
	ci/setup demo

setup-check:
	ci/setup check

setup-bench:
	ci/setup bench

demo: setup-demo
	$(MAKE) --no-print-directory install
	$(MAKE) --no-print-directory -C bench
	KEEP=$(KEEP) demo/demo

check: setup-check
	$(MAKE) --no-print-directory lint unit
	$(MAKE) --no-print-directory fuzz SECONDS=10
	$(MAKE) --no-print-directory -C test/sim check
	$(MAKE) --no-print-directory install smoke tap
	$(MAKE) --no-print-directory torture SECONDS=60

# Demo and benchmarks work: with little to do, their figures mean nothing.
smoke: export RESULTS_DIR = $(CURDIR)/build/smoke
smoke: export ROUNDS = 1
smoke:
	mkdir -p $(RESULTS_DIR)
	$(MAKE) --no-print-directory -C bench
	SHORT=1 demo/demo
	SIZE=0.02 bench/drain K1 builtin ours4
	SIZE=0.02 POINTS="1 2" bench/sweep group ours4
	SIZE=0.02 PERCENTS=5 bench/stream ours4
	SIZE=0.02 TABLES=3 SYNC_WORKERS=2 BUSY=0 bench/copy ours4
	SIZE=0.02 CASES=case7 bench/full ours4
	SECONDS=1 CLIENTS=4 MODES=remote_apply bench/sync ours4
	SAMPLES=20 TURNS=1 LOADS=0 bench/latency ours4

unit:
	$(MAKE) --no-print-directory -C test/unit check
	prove test/bench

sim:
	$(MAKE) --no-print-directory -C test/sim run SEEDS=$(SEEDS)

tap:
	ci/tap $(TESTS)

torture:
	test/torture/torture --seconds $(SECONDS) $(TORTURE)

check-long:
	ROUNDS=100 SECONDS=60 LOCK_SECONDS=60 CHANGES=5000000 RELATIONS=10000 N=100000 PG_TEST_TIMEOUT_DEFAULT=900 \
	ci/tap test/tap/030_terminate.pl test/tap/033_moved_row.pl test/tap/034_moved_row_trigger.pl \
		test/tap/039_long_lock.pl test/tap/040_prefix.pl test/tap/041_memory.pl

fuzz:
	$(MAKE) --no-print-directory -C test/fuzz run SECONDS=$(SECONDS)

lint:
	ci/lint

bench: setup-bench
	$(MAKE) --no-print-directory install
	PG_CONFIG=$(PG_CONFIG) bench/run

bench-full: setup-bench
	$(MAKE) --no-print-directory install
	PG_CONFIG=$(PG_CONFIG) bench/run --full

core-suite: install
	../shared/tools/core-suite $(DIR)
