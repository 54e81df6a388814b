//! Claims on cores that other processes can see, so that two of them do not bind threads to the same core unnoticed.
//!
//! A claim is a socket whose abstract name contains the core's number: binding it is atomic, needs no file and no
//! permission, and the system frees the name when the process ends, however it ends. It also reveals a second copy of
//! this library in the same process. Processes in another network namespace, such as a container's, are not detected.
//!
//! A claim never blocks and never fails a build: if the system refuses it for another reason, the core counts as
//! free.

#[cfg(target_os = "linux")]
use std::os::{
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram},
};

/// A claim on one core, until dropped; empty if the system has no such sockets.
#[derive(Debug)]
pub(super) struct Claim {
    #[cfg(target_os = "linux")]
    _socket: Option<UnixDatagram>,
}

impl Claim {
    /// Claims a core under the name that all users of these cores agree on; returns `None` if another holder has it.
    #[cfg(target_os = "linux")]
    pub(super) fn new(name: &str, core: usize) -> Option<Self> {
        let address = SocketAddr::from_abstract_name(format!("{name}-{core}"));
        match address.and_then(|address| UnixDatagram::bind_addr(&address)) {
            Ok(socket) => Some(Self { _socket: Some(socket) }),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => None,
            Err(_) => Some(Self { _socket: None }),
        }
    }

    /// Claims a core; other processes are not detected on this system.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn new(_: &str, _: usize) -> Option<Self> {
        Some(Self {})
    }
}
