//! The interface between the link and a network: packets in order, and regions by number.
//!
//! A *packet* is small, owned by the transport, and arrives in the order of sending between two ranks. A *bulk* message
//! is a region: the transport reads it from, and writes it to, the memory of tasks, which hold it until the transport
//! returns the item. Bulk messages are matched by their ranks and tag. A transport needs no memory for a bulk message
//! before its receiver has posted the receive, so memory is bounded however far a sender is ahead.
//!
//! Tags of the upper half are those of *channels*: messages with such a tag follow one another without overlap, mostly
//! with the same memory on both sides. A transport may therefore keep the requests of a channel.
//!
//! One thread at a time uses a transport. The thread that opened it also closes it. No call blocks.

#[cfg(feature = "mpi")]
mod mpi;
mod network;

#[cfg(feature = "mpi")]
pub(crate) use self::mpi::Mpi;
pub use network::{Endpoint, Network};

/// Returns the first tag of a channel, if there are `tags` different tags: the lower half is for other messages.
pub(crate) fn first_channel(tags: u32) -> u32 {
    tags.div_ceil(2)
}

/// A region to send. It stays in place and unchanged until the transport returns it.
pub trait Outgoing: Send {
    /// The region's bytes.
    fn bytes(&self) -> &[u8];
    /// Gives the region back to its task.
    fn finish(self: Box<Self>);
}

/// A region to fill. It stays in place and is not used otherwise until the transport returns it.
pub trait Incoming: Send {
    /// The region's bytes; the message has exactly this length.
    fn bytes(&mut self) -> &mut [u8];
    /// Gives the region back to its task, after all bytes have been written.
    fn finish(self: Box<Self>);
    /// Fails the region's task.
    fn fail(self: Box<Self>, error: thalweg::error::BoxError);
}

/// Something that a transport reports.
pub enum Event {
    /// A packet has arrived.
    Packet {
        /// Its sender.
        from: usize,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A region has been sent.
    Sent(Box<dyn Outgoing>),
    /// A region has been filled.
    Received(Box<dyn Incoming>),
    /// A rank cannot be reached, and never will be.
    Lost {
        /// The rank.
        rank: usize,
        /// Details.
        reason: String,
    },
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Packet { from, bytes } => write!(f, "Packet({} bytes from {from})", bytes.len()),
            Self::Sent(_) => f.write_str("Sent"),
            Self::Received(_) => f.write_str("Received"),
            Self::Lost { rank, reason } => write!(f, "Lost({rank}: {reason})"),
        }
    }
}

/// A network that connects ranks; see the module documentation.
pub trait Transport {
    /// This rank.
    fn rank(&self) -> usize;
    /// The number of ranks.
    fn size(&self) -> usize;
    /// The number of different tags.
    fn tags(&self) -> u32;
    /// Sends a packet to another rank. Packets between two ranks arrive in order.
    fn post(&mut self, to: usize, packet: Vec<u8>);
    /// Sends a region to another rank.
    fn send(&mut self, to: usize, tag: u32, item: Box<dyn Outgoing>);
    /// Receives a region from another rank.
    fn receive(&mut self, from: usize, tag: u32, item: Box<dyn Incoming>);
    /// Lets messages advance and reports events.
    fn poll(&mut self, events: &mut Vec<Event>);
    /// Returns whether packets or regions are still on their way from this rank, or expected by it.
    fn is_busy(&self) -> bool;
    /// Gives up all messages: ends those that this rank sends, and returns those that it expects, if nothing else can
    /// write them any more.
    fn abandon(&mut self) -> Vec<Box<dyn Incoming>>;
    /// Ends the connection, after all ranks have sent their last packets, or a rank is `lost`.
    fn close(self, lost: bool);
}
