# Build and install of the extension with PGXS; the project's own targets are in Makefile.
#	make -f pgxs.mk [PG_CONFIG=/path/to/pg_config] all install
EXTENSION = pg_parallel_apply
MODULE_big = pg_parallel_apply
DATA = sql/pg_parallel_apply--0.1.0.sql
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))

# PGXS tracks no headers: let the compiler write the dependencies.
PG_CPPFLAGS = -I$(CURDIR)/src -MMD -MP
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers $(if $(PPA_WERROR),-Werror)
# PostgreSQL 15 marks exported symbols only by default visibility; ours are few: _PG_init, the SQL functions, the apply worker's main function.
PG_CFLAGS += -fvisibility=hidden -DPGDLLEXPORT='__attribute__((visibility("default")))'

# No LLVM bitcode: nothing here is inlined into JIT-compiled queries.
override with_llvm = no

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

EXTRA_CLEAN += $(OBJS:.o=.d)
-include $(OBJS:.o=.d)
