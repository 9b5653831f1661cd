//! Turns a document template and a number into BSON bytes, deterministically, at memory speed.
