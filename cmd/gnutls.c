/*
 * gnutls: keep GnuTLS from initializing itself when the program starts. That would take 7 % of the start.
 *
 * On Debian libpq is linked with libldap, and libldap with GnuTLS. jobrun never uses it: libpq has TLS from OpenSSL.
 * When GnuTLS is loaded, it reads its configuration and sets up its ciphers, unless the program has a function of this
 * name that returns 1. The macro GNUTLS_SKIP_GLOBAL_INIT of gnutls.h defines the same function. libldap itself calls
 * gnutls_global_init() before it uses TLS. The Makefile exports the symbol, so that GnuTLS finds it.
 */
int jr_gnutls_is_skipped(void) __asm__("_gnutls_global_init_skip");

int
jr_gnutls_is_skipped(void)
{
	return 1;
}
