//! A network inside one process, for tests: each rank is a thread, messages take random time, and ranks can die.
//!
//! Time is counted in polls of the receiver, so delays cost no waiting and do not depend on the machine's load. Packets
//! between two ranks stay in order. All other messages overtake each other, as determined by the seed. The network
//! copies a region only after its receiver has posted the receive, as in a rendezvous. Between living ranks it never
//! loses, duplicates or corrupts a message.

use super::{Event, Incoming, Outgoing, Transport};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

/// A network of ranks that are threads of this process.
///
/// ```
/// use thalweg::Runtime;
/// use thalweg_mpi::{Network, Options};
/// let ends = Network::new(2).delays(5).seed(1).endpoints();
/// std::thread::scope(|scope| {
///     for end in ends {
///         scope.spawn(move || {
///             let cluster = Options::new().over(end, Runtime::builder().compute_units("1:CPU:1"))?;
///             let (x, y) = (cluster.data(0, vec![1.0, 2.0]), cluster.data(1, vec![0.0]));
///             cluster.task("sum", (x.input(), y.output())).cpu(|_, (x, y)| y[0] = x.iter().sum()).submit()?;
///             assert_eq!(cluster.read(&y)?, [3.0]);
///             cluster.wait()
///         });
///     }
/// });
/// ```
#[derive(Debug, Clone)]
pub struct Network {
    ranks: usize,
    seed: u64,
    delay: u64,
    death: Option<(usize, u64)>,
}

impl Network {
    /// A network of this many ranks, without delays.
    pub fn new(ranks: usize) -> Self {
        Self { ranks, seed: 0, delay: 0, death: None }
    }

    /// Draws delays from this seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Lets each message take up to this many polls of its receiver.
    #[must_use]
    pub fn delays(mut self, polls: u64) -> Self {
        self.delay = polls;
        self
    }

    /// Lets a rank die after it has sent this many packets.
    #[must_use]
    pub fn death(mut self, rank: usize, packets: u64) -> Self {
        self.death = Some((rank, packets));
        self
    }

    /// Returns the ends of the network, one for each rank.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let state = Arc::new(Mutex::new(State {
            random: self.seed ^ 0x9e37_79b9_7f4a_7c15,
            delay: self.delay,
            inboxes: (0..self.ranks)
                .map(|_| Inbox { packets: (0..self.ranks).map(|_| VecDeque::new()).collect(), ..Inbox::default() })
                .collect(),
            dead: Vec::new(),
        }));
        let life = |rank| self.death.filter(|(dying, _)| *dying == rank).map_or(u64::MAX, |(_, packets)| packets);
        (0..self.ranks)
            .map(|rank| Endpoint {
                rank,
                size: self.ranks,
                life: life(rank),
                told: 0,
                expected: 0,
                state: state.clone(),
            })
            .collect()
    }
}

struct State {
    random: u64,
    delay: u64,
    inboxes: Vec<Inbox>,
    dead: Vec<usize>,
}

/// Messages on their way to one rank.
#[derive(Default)]
struct Inbox {
    polls: u64,
    /// For each sender, its packets with the poll at which each arrives.
    packets: Vec<VecDeque<(u64, Vec<u8>)>>,
    /// Regions by sender and tag, with the poll at which they may arrive.
    outgoing: HashMap<(usize, u32), (u64, Box<dyn Outgoing>)>,
    incoming: HashMap<(usize, u32), Box<dyn Incoming>>,
    /// Regions that this rank has sent and that have arrived.
    sent: Vec<Box<dyn Outgoing>>,
    /// The number of regions that this rank has sent and that have not arrived.
    sending: usize,
}

impl State {
    /// The poll at which a message that is sent now arrives (splitmix64).
    fn arrival(&mut self, to: usize) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.inboxes[to].polls + (z ^ (z >> 31)) % (self.delay + 1)
    }
}

/// One rank's end of a [`Network`].
pub struct Endpoint {
    rank: usize,
    size: usize,
    /// The number of packets that this rank may still send before it dies.
    life: u64,
    /// The number of deaths that this rank has been notified of.
    told: usize,
    /// The number of receives that this rank has posted and that have not completed.
    expected: usize,
    state: Arc<Mutex<State>>,
}

impl Endpoint {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn is_dead(&self) -> bool {
        self.life == 0
    }
}

impl Transport for Endpoint {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn tags(&self) -> u32 {
        1 << 20
    }

    fn post(&mut self, to: usize, packet: Vec<u8>) {
        if self.is_dead() {
            return;
        }
        self.life -= u64::from(self.life != u64::MAX);
        let dies = self.is_dead();
        let mut state = self.state();
        let at = state.arrival(to);
        let queue = &mut state.inboxes[to].packets[self.rank];
        let at = queue.back().map_or(at, |(last, _)| at.max(*last));
        queue.push_back((at, packet));
        if dies {
            state.dead.push(self.rank);
        }
    }

    fn send(&mut self, to: usize, tag: u32, item: Box<dyn Outgoing>) {
        let rank = self.rank;
        let mut state = self.state();
        let at = state.arrival(to);
        state.inboxes[rank].sending += 1;
        let before = state.inboxes[to].outgoing.insert((rank, tag), (at, item));
        assert!(before.is_none(), "a tag is used twice at the same time");
    }

    fn receive(&mut self, from: usize, tag: u32, item: Box<dyn Incoming>) {
        self.expected += 1;
        let rank = self.rank;
        let before = self.state().inboxes[rank].incoming.insert((from, tag), item);
        assert!(before.is_none(), "a tag is used twice at the same time");
    }

    fn poll(&mut self, events: &mut Vec<Event>) {
        let (rank, told) = (self.rank, self.told);
        let mut guard = self.state();
        let state = &mut *guard;
        for &dead in &state.dead[told..] {
            events.push(Event::Lost { rank: dead, reason: "it has died".to_owned() });
        }
        let all = state.dead.len();
        let inbox = &mut state.inboxes[rank];
        inbox.polls += 1;
        for (from, queue) in inbox.packets.iter_mut().enumerate() {
            while queue.front().is_some_and(|(at, _)| *at <= inbox.polls) {
                events.extend(queue.pop_front().map(|(_, bytes)| Event::Packet { from, bytes }));
            }
        }
        let sent = std::mem::take(&mut inbox.sent);
        inbox.sending -= sent.len();
        events.extend(sent.into_iter().map(Event::Sent));
        let polls = inbox.polls;
        let ready = |key: &(usize, u32)| inbox.outgoing.get(key).is_some_and(|(at, _)| *at <= polls);
        let mut keys: Vec<_> = inbox.incoming.keys().copied().filter(ready).collect();
        keys.sort_unstable();
        let received = keys.len();
        for key in keys {
            let inbox = &mut state.inboxes[rank];
            let (mut to, (_, from)) = (inbox.incoming.remove(&key).unwrap(), inbox.outgoing.remove(&key).unwrap());
            to.bytes().copy_from_slice(from.bytes());
            events.push(Event::Received(to));
            state.inboxes[key.0].sent.push(from);
        }
        drop(guard);
        self.told = all;
        self.expected -= received;
    }

    fn is_busy(&self) -> bool {
        self.expected > 0 || self.state().inboxes[self.rank].sending > 0
    }

    fn abandon(&mut self) -> Vec<Box<dyn Incoming>> {
        let rank = self.rank;
        let mut state = self.state();
        let mut sent = std::mem::take(&mut state.inboxes[rank].sent);
        for inbox in &mut state.inboxes {
            let mine = inbox.outgoing.extract_if(|(from, _), _| *from == rank);
            sent.extend(mine.map(|(_, (_, item))| item));
        }
        let inbox = &mut state.inboxes[rank];
        inbox.sending = 0;
        let expected = inbox.incoming.drain().map(|(_, item)| item).collect();
        drop(state);
        self.expected = 0;
        sent.into_iter().for_each(Outgoing::finish);
        expected
    }

    fn close(self, _: bool) {}
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({} of {})", self.rank, self.size)
    }
}
