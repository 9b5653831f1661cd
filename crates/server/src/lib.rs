//! Finds, installs, starts, probes and stops MongoDB servers; holds the null server, the lying server and the machine's facts.
