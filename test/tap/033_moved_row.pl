# 033_moved_row.pl: local sessions move rows while remote updates and deletes look for them.
# Shows: every row is found, and neither side's columns are lost. SECONDS (default 15; 60 for the long run).
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
fault_moved_rows($pub, $sub, seconds => fault_env('SECONDS', 15));
fault_no_crash($pub, $sub);
done_testing();
