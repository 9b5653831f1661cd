//! What a connection string says, as the lean client takes it.

use std::time::Duration;

use mongodb::options::{
    Acknowledgment, AuthMechanism, ClientOptions, Compressor as DriverCompressor, ServerAddress,
    Tls as DriverTls,
};
use plimsoll_wire::{Address, Compressor, ConnectOptions, Credential, Mechanism, Tls, Trust};

use super::{CONNECT_TIMEOUT, Error};

/// The write concern is the scenario's. One in the URI does no harm, unless it says that nobody waits for an answer: then
/// what was meant is not what would be measured.
pub(super) fn check_promise(options: &ClientOptions) -> Result<(), Error> {
    let w = options.write_concern.as_ref().and_then(|concern| concern.w.as_ref());
    if w == Some(&Acknowledgment::Nodes(0)) { Err(Error::NoPromise) } else { Ok(()) }
}

pub(super) fn addresses(options: &ClientOptions) -> Result<Vec<Address>, Error> {
    let read = |host: &ServerAddress| {
        host.to_string().parse().map_err(|error: plimsoll_wire::AddressError| Error::Uri(error.to_string()))
    };
    let addresses: Vec<_> = options.hosts.iter().map(read).collect::<Result<_, _>>()?;
    if addresses.is_empty() { Err(Error::Uri("it names no host".into())) } else { Ok(addresses) }
}

pub(super) fn connect_options(
    options: &ClientOptions,
    address: Address,
    timeout: Duration,
) -> Result<ConnectOptions, Error> {
    let mut connect = ConnectOptions::new(address);
    connect.credential = credential(options)?;
    connect.tls = tls(options)?;
    connect.connect_timeout = options.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    connect.timeout = Some(timeout);
    if let Some(name) = &options.app_name {
        connect.application.clone_from(name);
    }
    compress(options, &mut connect)?;
    Ok(connect)
}

fn compress(options: &ClientOptions, connect: &mut ConnectOptions) -> Result<(), Error> {
    for compressor in options.compressors.iter().flatten() {
        match compressor {
            DriverCompressor::Zstd { .. } => connect.compression.push(Compressor::Zstd),
            DriverCompressor::Zlib { level } => {
                connect.compression.push(Compressor::Zlib);
                connect.zlib_level = level.and_then(|level| i32::try_from(level).ok());
            }
            other => {
                return Err(Error::Unsupported(format!(
                    "{other:?} is not spoken by the lean client, only zstd and zlib"
                )));
            }
        }
    }
    Ok(())
}

fn credential(options: &ClientOptions) -> Result<Option<Credential>, Error> {
    let Some(credential) = &options.credential else { return Ok(None) };
    let mechanism = match &credential.mechanism {
        None => None,
        Some(AuthMechanism::ScramSha1) => Some(Mechanism::ScramSha1),
        Some(AuthMechanism::ScramSha256) => Some(Mechanism::ScramSha256),
        Some(other) => {
            return Err(Error::Unsupported(format!(
                "{other:?} is not spoken by the lean client, only SCRAM-SHA-1 and SCRAM-SHA-256"
            )));
        }
    };
    let (Some(user), Some(password)) = (&credential.username, &credential.password) else {
        return Err(Error::Unsupported("a user without a password".into()));
    };
    let source = credential.source.clone().or_else(|| options.default_database.clone());
    let mut credential = Credential::new(user, password, source.unwrap_or_else(|| "admin".into()));
    credential.mechanism = mechanism;
    Ok(Some(credential))
}

fn tls(options: &ClientOptions) -> Result<Option<Tls>, Error> {
    let Some(DriverTls::Enabled(settings)) = &options.tls else { return Ok(None) };
    if settings.cert_key_file_path.is_some() {
        return Err(Error::Unsupported("client certificates are not spoken by the lean client".into()));
    }
    let trust = match (&settings.allow_invalid_certificates, &settings.ca_file_path) {
        (Some(true), _) => Trust::Anyone,
        (_, Some(path)) => Trust::Authorities(
            std::fs::read(path).map_err(|source| Error::CaFile { path: path.clone(), source })?,
        ),
        _ => Trust::PublicRoots,
    };
    Ok(Some(Tls::new(&trust)?))
}
