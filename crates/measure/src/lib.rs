//! What was measured, as plain values with a versioned file form.
