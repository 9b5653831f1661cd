//! Remembers what was promised (two bits a document) and says what an audit found.
