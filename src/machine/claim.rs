//! Claims on cores that are visible to other processes, so that two processes do not bind threads to the same core
//! unnoticed.
//!
//! A claim is a socket whose abstract name contains the core's number. Binding the socket is atomic and needs neither
//! a file nor permissions, and the system frees the name when the process ends, even if it crashes. Claims also
//! reveal a second copy of this library in the same process. Processes in a different network namespace, for example
//! in a container, are not detected.
//!
//! A claim never blocks, and never prevents a runtime from being built: if the system refuses the claim for any
//! reason other than another holder, the core counts as free.

#[cfg(target_os = "linux")]
use std::os::{
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram},
};

/// A claim on one core, which is held until it is dropped. The claim is empty if the system has no abstract sockets.
#[derive(Debug)]
pub(super) struct Claim {
    #[cfg(target_os = "linux")]
    _socket: Option<UnixDatagram>,
}

impl Claim {
    /// Claims a core. `name` is the prefix that all users of the cores agree on. Returns `None` if another holder has
    /// claimed the core.
    #[cfg(target_os = "linux")]
    pub(super) fn new(name: &str, core: usize) -> Option<Self> {
        let address = SocketAddr::from_abstract_name(format!("{name}-{core}"));
        match address.and_then(|address| UnixDatagram::bind_addr(&address)) {
            Ok(socket) => Some(Self { _socket: Some(socket) }),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => None,
            Err(_) => Some(Self { _socket: None }),
        }
    }

    /// Claims a core. On this system, other processes are not detected.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn new(_: &str, _: usize) -> Option<Self> {
        Some(Self {})
    }
}
