# 036_repeatable_read.pl: the subscriber's database has default_transaction_isolation = 'repeatable read'.
# Shows: the apply worker still sees the newest version of each row under local updates, loses nothing and does not stop
# with serialization failures. SECONDS (default 10).
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
$sub->safe_psql('postgres', "ALTER DATABASE postgres SET default_transaction_isolation = 'repeatable read'");
is($sub->safe_psql('postgres', 'SHOW transaction_isolation'), 'repeatable read', 'the setting is in force');

# The local sessions themselves keep to READ COMMITTED: their own serialization failures are not of interest.
fault_moved_rows($pub, $sub,
	seconds => fault_env('SECONDS', 10),
	local_options => '-c default_transaction_isolation=read\ committed');
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
