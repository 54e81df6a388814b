//! Messages and bytes between ranks, as numbers and as a table.

use crate::cluster::Cluster;
use crate::data::ClusterData;
use crate::error::ClusterError;
use crate::owners::block;
use crate::shared::lock;
use std::fmt;

/// Messages from one rank to another, or from a rank to all others, since the start.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Regions that were sent.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Regions that were sent inside of packets, rather than directly from their memory.
    pub eager: u64,
    /// Regions that were sent by requests that a [recording](crate::Recording) has planned once.
    pub repeated: u64,
    /// Packets, which carry eager regions and all control records.
    pub packets: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.eager += other.eager;
        self.repeated += other.repeated;
        self.packets += other.packets;
    }
}

/// Messages between all pairs of ranks; [displayed](fmt::Display) as a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    ranks: usize,
    traffic: Vec<Traffic>,
}

impl Links {
    /// Returns the messages from one rank to another.
    ///
    /// # Panics
    /// Panics if there is no such rank.
    pub fn between(&self, from: usize, to: usize) -> Traffic {
        assert!(from < self.ranks && to < self.ranks, "there are {} ranks", self.ranks);
        self.traffic[from * self.ranks + to]
    }
}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>4} {:>4} {:>10} {:>10} {:>10} {:>10} {:>12}",
            "from", "to", "messages", "eager", "repeated", "packets", "MiB"
        )?;
        for (at, sent) in self.traffic.iter().enumerate().filter(|(_, sent)| sent.packets + sent.messages > 0) {
            let (from, to, mib) = (at / self.ranks, at % self.ranks, sent.bytes as f64 / (1 << 20) as f64);
            let Traffic { messages, eager, repeated, packets, .. } = sent;
            writeln!(f, "{from:>4} {to:>4} {messages:>10} {eager:>10} {repeated:>10} {packets:>10} {mib:>12.3}")?;
        }
        Ok(())
    }
}

impl Cluster {
    /// Returns the messages that this rank has sent.
    pub fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        lock(&self.core.shared.sent).iter().for_each(|sent| sum += *sent);
        sum
    }

    /// Returns the messages between all pairs of ranks, on every rank. Every rank must make this call; it waits for all
    /// of them, and is itself not counted.
    ///
    /// # Errors
    /// The cluster cannot continue.
    pub fn links(&self) -> Result<Links, ClusterError> {
        let ranks = self.ranks();
        self.wait()?;
        let mut mine = lock(&self.core.shared.sent).clone();
        mine.resize(ranks, Traffic::default());
        let numbers = mine.iter().flat_map(|sent| [sent.messages, sent.bytes, sent.eager, sent.packets, sent.repeated]);
        let numbers: Vec<u64> = numbers.collect();
        let all: ClusterData<u64> = self.distributed(ranks * 5 * ranks, 5 * ranks, block);
        for tile in all.tiles() {
            let numbers = numbers.clone();
            self.task("traffic", tile.output()).cpu(move |_, to| to.copy_from_slice(&numbers)).submit()?;
        }
        let mut traffic = Vec::with_capacity(ranks * ranks);
        for tile in all.tiles() {
            let of_rank = self.read(tile)?;
            traffic.extend(of_rank.chunks_exact(5).map(|sent| Traffic {
                messages: sent[0],
                bytes: sent[1],
                eager: sent[2],
                packets: sent[3],
                repeated: sent[4],
            }));
        }
        Ok(Links { ranks, traffic })
    }
}
