# Test of ci/layers: each rule must be able to fail.  One small tree per case, with one fault in it.
use strict;
use warnings;

use File::Basename qw(dirname);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

# Writes FILES (path => text) below a new folder and runs ci/layers there: its output and exit status.
sub layers
{
	my (%files) = @_;
	my $top = tempdir(CLEANUP => 1);
	while (my ($path, $text) = each %files)
	{
		make_path(dirname("$top/$path"));
		open my $out, '>', "$top/$path" or die "$top/$path: $!\n";
		print $out $text;
		close $out or die "$top/$path: $!\n";
	}
	my $output = qx{'$FindBin::RealBin/layers' '$top' 2>&1};
	return ($output, $? >> 8);
}

my %good = (
	'src/main.c' => qq{#include "postgres.h"\n#include "apply/apply_worker.h"\n#include "schedule/schedule_leader.h"\n},
	'src/core/core_group.h'            => qq{#include <stdint.h>\n#include <string.h>\n},
	'src/wire/wire_message.h'          => qq{#include <stddef.h>\n},
	'src/server/server_compat.h'       => qq{#if PG_VERSION_NUM < 160000\n#endif\n},
	'src/apply/apply_worker.h'         => qq{#include "postgres.h"\n},
	'src/apply/apply_worker.c'         => qq{#include "commit/commit_origin.h"\n#include "apply/apply_worker.h"\n},
	'src/commit/commit_origin.h'       => qq{#include "server/server_compat.h"\n},
	'src/commit/commit_origin.c'       => qq{\treplorigin_session_setup(id);\n\treplorigin_session_origin = id;\n},
	'src/schedule/schedule_leader.h'   => qq{#include "postgres.h"\n},
	'src/receive/receive_nap.c'        => qq{\tpg_usleep(500);\n\tereport(ERROR, (errcode(E), errmsg("x")));\n},
	'src/apply/apply_insert.c'         => qq{/* sleep(1), apply_dispatch() */\n\terrmsg("strcpy(a, b)");\n\tppa_apply_row();\n},
);
my ($output, $status) = layers(%good);
is($output, '', 'a good tree: nothing is said');
is($status, 0,  'a good tree: exit status');

# [ file, text, what must be said ]
my @faults = (
	[ 'src/core/core_x.c',   qq{#include "postgres.h"\n},                qr/core_x\.c:1: core is plain C/ ],
	[ 'src/core/core_x.c',   qq{#include <time.h>\n},                    qr/plain C: .* not time\.h/ ],
	[ 'src/wire/wire_x.c',   qq{\n#include "core/core_group.h"\n},       qr/wire_x\.c:2: wire must not include core/ ],
	[ 'src/core/core_x.c',   qq{\tp = malloc(3);\n},                     qr/malloc must not be used/ ],
	[ 'src/wire/wire_x.c',   qq{\tprintf("x");\n},                       qr/printf must not be used/ ],
	[ 'src/apply/apply_x.c', qq{#include "commit/commit_origin.h"\n},    qr/apply must not include commit/ ],
	[ 'src/receive/receive_x.c', qq{#include "schedule/schedule_leader.h"\n}, qr/header of a process root/ ],
	[ 'src/server/server_x.c', qq{#include "report/report_x.h"\n},       qr/server must not include report/,
		'src/report/report_x.h' => "\n" ],
	[ 'src/apply/apply_x.c', qq{#include "wire_message.h"\n},            qr{with their folder: "wire/wire_message\.h"} ],
	[ 'src/apply/apply_x.c', qq{#if PG_VERSION_NUM >= 160000\n#endif\n}, qr/PG_VERSION_NUM is used in/ ],
	[ 'src/apply/apply_x.c', qq{static void\napply_row(int x)\n{\n}\n},  qr/apply_x\.c:2: apply_row: prefixes/ ],
	[ 'src/apply/apply_x.c', qq{static int pa_count;\n},                 qr/pa_count: prefixes/ ],
	[ 'src/apply/apply_x.c', qq{#define logicalrep_x 1\n},               qr/logicalrep_x: prefixes/ ],
	[ 'src/apply/apply_x.c', qq{\tpg_usleep(1);\n},                      qr/pg_usleep must not be used/ ],
	[ 'src/apply/apply_x.c', qq{\tstrcpy(a, b);\n},                      qr/strcpy must not be used/ ],
	[ 'src/apply/apply_x.c', qq{\tprocess_syncing_tables(x);\n},         qr/process_syncing_tables must not be used/ ],
	[ 'src/apply/apply_x.c', qq{\tif (MyLogicalRepWorker->x)\n},         qr/MyLogicalRepWorker must not be used/ ],
	[ 'src/apply/apply_x.c', qq{\treplorigin_session_reset();\n},        qr/commit_origin\.c owns the origin/ ],
	[ 'src/apply/apply_x.c', qq{\treplorigin_session_origin = 1;\n},     qr/replorigin_session_origin is set here/ ],
	[ 'src/apply/apply_x.c', qq{\tEmitErrorReport();\n},                 qr/EmitErrorReport must not be used/ ],
	[ 'src/apply/apply_x.c', qq{\tereport(ERROR,\n\t\t\t(errmsg("x")));\n}, qr/ereport\(ERROR\) without errcode/ ],
	[ 'src/apply/odd.c',     "\n",                                       qr/does not begin with apply_/ ],
	[ 'src/other/other_x.c', "\n",                                       qr{src/other has no rule} ],
	[ 'src/apply/apply_x.c', "\n" x 1201,                                qr/apply_x\.c:1201: .*must be split/ ],
	[ 'test/unit/core_group.h', "\n",                                    qr/base name as in/ ],
	[ 'src/postgres.h',      "\n",                                       qr/as of one of PostgreSQL's headers/ ],
);
for my $fault (@faults)
{
	my ($file, $text, $expected, %more) = @$fault;
	($output, $status) = layers(%good, %more, $file => $text);
	like($output, $expected, "complaint: $expected");
	is($status, 1, "exit status: $file");
}

($output, $status) = layers(%good, 'src/apply/apply_x.c' => "\n" x 801);
like($output, qr/warning: 801 lines/, 'a long file: warning');
is($status, 0, 'a long file: no error');

done_testing();
