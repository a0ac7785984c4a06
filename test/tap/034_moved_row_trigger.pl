# 034_moved_row_trigger.pl: as 033, and the tables have BEFORE ROW triggers that fire on the subscriber.
# Shows: a trigger that meets a row changed by a local session neither crashes the server nor loses the change; each
# change fires its trigger once. SECONDS (default 15; 60 for the long run).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

fault_seed();
my ($pub, $sub) = ppa_pair();
fault_moved_rows($pub, $sub, trigger => 1, seconds => fault_env('SECONDS', 15));
fault_no_crash($pub, $sub);
done_testing();
