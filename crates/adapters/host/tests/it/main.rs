//! Tests servers from outside the crate.

#[cfg(test)]
mod embedded;
#[cfg(test)]
mod in_process;
#[cfg(test)]
mod proxy;

#[cfg(test)]
mod fixture;
