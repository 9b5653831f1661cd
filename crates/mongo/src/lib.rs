//! MongoDB behind the load engine's port: targets, topology and the audit scan.
