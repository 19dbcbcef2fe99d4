"""Link routes: addresses whose links are connected through to a broker."""
