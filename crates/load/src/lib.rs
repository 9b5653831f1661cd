//! Decides when an operation is due, sends it, times it, decides when to stop, and searches for the load line.
