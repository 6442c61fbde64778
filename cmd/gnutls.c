/*
 * gnutls: do not prepare GnuTLS when the program starts, which would be 7 % of the time that the start takes.
 *
 * On Debian libpq is linked with libldap, and libldap with GnuTLS, which jobrun never uses: libpq has TLS from OpenSSL.
 * Each time it is loaded, GnuTLS reads its configuration and prepares its ciphers, unless the program defines this
 * function to return 1. Its header has a macro that does, GNUTLS_SKIP_GLOBAL_INIT; jobrun does without the header.
 * libldap calls gnutls_global_init() itself before it uses TLS. The Makefile exports the symbol for GnuTLS to find.
 */
int jr_gnutls_is_skipped(void) __asm__("_gnutls_global_init_skip");

int
jr_gnutls_is_skipped(void)
{
	return 1;
}
