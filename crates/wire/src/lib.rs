//! The lean MongoDB client: frames, handshake, authentication, TLS, one command in flight per connection.
