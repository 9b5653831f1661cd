//! Tests the client against real servers, and against deliberately faulty ones.

#[cfg(test)]
mod allocations;
#[cfg(test)]
mod auth;
#[cfg(test)]
mod compressed;
#[cfg(test)]
mod driver;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod finds;
#[cfg(test)]
mod sha_1;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod writes;

#[cfg(test)]
mod client;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod server;
