"""The network layer of actors: addresses, authentication, TLS, message frames and connections."""
