"""Link routes: addresses whose links are routed through to a broker."""
