//! The link: this rank's end of the network. It alone uses the transport.
//!
//! Threads of the runtime give it *commands* (a region is ready to be sent, a region is ready to be filled). The link
//! matches records that have arrived with regions that are ready, in either order, by their number between two ranks.
//! Small regions travel inside packets, which collect everything for a destination until the link has handled all that
//! is known; large regions go from memory to memory.
//!
//! *Progress.* One thread at a time advances the link: a unit's thread that gives a command, an idle one between its
//! searches for a task, or else the communication thread ([`serve`]), which also begins and ends the link. A unit's
//! thread never waits for the link, and leaves regions that take long to the communication thread.
//!
//! *Memory.* An eager record that arrives early is kept, so its bytes count against the sender's credit with this rank.
//! A sender without credit announces the region instead and lets the transport carry it, which needs no memory here.
//! The region stays with its task until it is sent, so a rank that is ahead is held back by its own writes.
//!
//! *Channels.* A message that a recording repeats has a fixed tag, chosen by its sender, so the transport may keep its
//! request. Messages of a channel do not overlap: a plan sends a box again only after the box has been written, and the
//! write waits until the box has been sent; on the receiver, the next receive waits for the last one.
//!
//! *Sleep.* If nothing is expected and nothing is on its way, the communication thread sleeps until that changes.
//! Otherwise it looks at intervals, which grow while it finds nothing, because then idle units are faster or the
//! network is slow.
//!
//! *The end.* A rank says goodbye when its tasks have ended. The link ends when all ranks have, so it serves the
//! others until then. If a rank is lost, everything that waits fails with its name.
//!
//! This module never runs user code, and knows neither tasks nor data objects.

mod clock;
mod collective;

pub(crate) use collective::PRUNED;

use crate::error::{Broken, Failure};
use crate::shared::{Advance, Command, Shared, Step, Whose, lock};
use crate::transport::{Event, Incoming, Outgoing, Transport, first_channel};
use crate::wire::{Reader, Record, Writer};
use clock::Clock;
use collective::Collectives;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Packets are sent before they are longer than this.
const LARGEST_PACKET: usize = 16 << 10;
/// Looks without success before the communication thread sleeps. Meanwhile it lets other threads have its core.
const LOOKS_AWAKE: u32 = 10;
/// The intervals at which it looks then.
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);
/// Looks at one interval, before it is doubled.
const LOOKS: u32 = 8;
/// Time in which the news that a cluster is broken should reach all ranks.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Sizes of messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// The largest region that is sent inside a packet, in bytes.
    pub(crate) eager: usize,
    /// Bytes of eager regions that each rank keeps for each other rank.
    pub(crate) budget: usize,
}

/// A region that is ready to be filled.
struct Receive {
    check: u64,
    item: Box<dyn Incoming>,
    whose: Whose,
}

/// A record that has arrived before its region is ready.
enum Arrived {
    Eager(u64, Vec<u8>),
    Bulk(u64, u64, u32),
    Poison(u64, Failure),
}

/// The state of another rank.
#[derive(Clone, Default)]
struct Peer {
    /// Records for it.
    packet: Vec<u8>,
    /// Bytes of eager regions that it will still keep.
    credit: usize,
    /// Bytes of its eager regions that have been used here, and that it does not know of.
    used: usize,
    /// Whether it has said goodbye.
    gone: bool,
}

/// See the module documentation.
pub(crate) struct Link<T> {
    transport: T,
    shared: Arc<Shared>,
    sizes: Sizes,
    rank: usize,
    peers: Vec<Peer>,
    expected: FxHashMap<(usize, u64), Receive>,
    arrived: FxHashMap<(usize, u64), Arrived>,
    collectives: Collectives,
    clock: Option<Clock>,
    /// Questions for the time that have arrived before this rank has a clock: their ranks and times.
    early_questions: Vec<(usize, u64)>,
    closing: bool,
    /// Since when the cluster has been broken.
    broken_since: Option<Instant>,
    commands: Vec<Command>,
    events: Vec<Event>,
}

impl<T: Transport> Link<T> {
    pub(crate) fn new(transport: T, shared: Arc<Shared>, sizes: Sizes) -> Self {
        let (rank, size) = (transport.rank(), transport.size());
        Self {
            transport,
            shared,
            sizes,
            rank,
            peers: vec![Peer { credit: sizes.budget, ..Peer::default() }; size],
            expected: FxHashMap::default(),
            arrived: FxHashMap::default(),
            collectives: Collectives::new(size),
            clock: None,
            early_questions: Vec::new(),
            closing: false,
            broken_since: None,
            commands: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Returns whether the link has nothing more to do.
    fn is_over(&mut self) -> bool {
        if self.shared.broken().is_some() {
            let since = *self.broken_since.get_or_insert_with(Instant::now);
            return self.closing && (!self.transport.is_busy() || since.elapsed() > LAST_WORDS);
        }
        self.closing && !self.transport.is_busy() && self.others().all(|to| self.peers[to].gone)
    }

    /// Returns whether something is expected or on its way.
    fn waits(&self) -> bool {
        let clock_waits = self.clock.as_ref().is_some_and(Clock::waits);
        let is_expecting = !self.expected.is_empty() || self.collectives.waits() || clock_waits;
        is_expecting || self.closing || self.transport.is_busy()
    }

    /// Carries out the commands.
    fn obey(&mut self) -> bool {
        let mut commands = std::mem::take(&mut self.commands);
        self.shared.take_commands(&mut commands);
        let moved = !commands.is_empty();
        commands.drain(..).for_each(|command| self.command(command));
        self.commands = commands;
        moved
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<T> {
        let rank = self.rank;
        (0..self.peers.len()).filter(move |to| *to != rank)
    }

    fn flush(&mut self, to: usize) {
        let peer = &mut self.peers[to];
        // Credit is worth a separate packet if the sender may soon have none.
        if peer.used > 0 && (!peer.packet.is_empty() || 2 * peer.used >= self.sizes.budget) {
            let bytes = std::mem::take(&mut peer.used) as u64;
            Writer(&mut peer.packet).record(&Record::Credit { bytes });
        }
        if !peer.packet.is_empty() {
            let packet = std::mem::take(&mut peer.packet);
            self.transport.post(to, packet);
            self.shared.count(to, |sent| sent.packets += 1);
        }
    }

    /// Sends a record; to this rank, without the transport.
    fn post(&mut self, to: usize, record: Record) {
        if to == self.rank {
            return self.record(to, record);
        }
        Writer(&mut self.peers[to].packet).record(&record);
        if self.peers[to].packet.len() > LARGEST_PACKET {
            self.flush(to);
        }
    }

    /// Returns the tag of a message: that of its channel, or else one that changes with each message.
    fn tag(&self, number: u64, channel: Option<u32>) -> u32 {
        let first = first_channel(self.transport.tags());
        let channel = channel.and_then(|channel| first.checked_add(channel)).filter(|tag| *tag < self.transport.tags());
        channel.unwrap_or((number % u64::from(first)) as u32)
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Send { to, number, check, item, channel } => self.send(to, (number, channel), check, item),
            Command::Poison { to, number, check, failure } => {
                if self.shared.broken().is_none() {
                    self.post(to, Record::Poison { number, check, failure });
                }
            }
            Command::Receive { from, number, check, item, whose } => {
                let receive = Receive { check, item, whose };
                if let Some(broken) = self.shared.broken() {
                    return receive.item.fail(broken.clone().into());
                }
                match self.arrived.remove(&(from, number)) {
                    Some(arrived) => self.matched(from, number, receive, arrived),
                    None => {
                        self.expected.insert((from, number), receive);
                        self.check_gone(from);
                    }
                }
            }
            Command::Enter { collective, index, hash, place } => {
                self.post(0, Record::Enter { collective, index, hash, place });
            }
            Command::Done { collective, failures } => {
                self.collectives.expect_result(true);
                self.post(0, Record::Done { collective, failures });
                if self.rank != 0 {
                    self.check_gone(0);
                }
            }
            Command::Break(broken) => self.break_all(broken),
            Command::Clock(now, file) => self.start_clock(now, file),
            Command::Close if self.end_clock() => {}
            Command::Close => self.leave(),
        }
    }

    /// Says goodbye to all ranks.
    fn leave(&mut self) {
        self.closing = true;
        if self.shared.broken().is_none() {
            self.others().for_each(|to| self.post(to, Record::Bye));
        }
    }

    fn send(&mut self, to: usize, (number, channel): (u64, Option<u32>), check: u64, item: Box<dyn Outgoing>) {
        if self.shared.broken().is_some() {
            return item.finish();
        }
        let len = item.bytes().len();
        let is_eager = len <= self.sizes.eager && len <= self.peers[to].credit;
        let tag = self.tag(number, channel);
        let repeats = !is_eager && tag >= first_channel(self.transport.tags());
        let peer = &mut self.peers[to];
        self.shared.count(to, |sent| {
            sent.messages += 1;
            sent.bytes += len as u64;
            sent.eager += u64::from(is_eager);
            sent.repeated += u64::from(repeats);
        });
        if is_eager {
            peer.credit -= len;
            Writer(&mut peer.packet).eager(number, check, item.bytes());
            item.finish();
            if self.peers[to].packet.len() > LARGEST_PACKET {
                self.flush(to);
            }
        } else {
            self.post(to, Record::Bulk { number, check, len: len as u64, tag });
            self.transport.send(to, tag, item);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Packet { from, bytes } => {
                let mut reader = Reader::new(&bytes);
                reader.by_ref().for_each(|record| self.record(from, record));
                if reader.failed() {
                    let reason = "its packets cannot be read; try the same binary on every rank".to_owned();
                    self.break_all(Broken::Lost { rank: from, reason });
                }
            }
            Event::Sent(item) => item.finish(),
            Event::Received(item) => item.finish(),
            Event::Lost { rank, reason } => self.break_all(Broken::Lost { rank, reason }),
        }
    }

    fn record(&mut self, from: usize, record: Record) {
        match record {
            Record::Eager { number, check, bytes } => self.arrives(from, number, Arrived::Eager(check, bytes)),
            Record::Bulk { number, check, len, tag } => self.arrives(from, number, Arrived::Bulk(check, len, tag)),
            Record::Poison { number, check, failure } => self.arrives(from, number, Arrived::Poison(check, failure)),
            Record::Credit { bytes } => self.peers[from].credit += bytes as usize,
            Record::Bye => {
                self.peers[from].gone = true;
                self.check_gone(from);
            }
            Record::AskTime { asked } => self.answer_time(from, asked),
            Record::Time { asked, time } => self.time_answered(asked, time),
            Record::Broken(broken) => self.break_here(broken),
            Record::Ask => {
                let entries = lock(&self.shared.log).entries();
                self.post(0, Record::Log { entries });
            }
            Record::Result { collective, failures } => {
                self.collectives.expect_result(false);
                self.shared.set_result(collective, failures);
            }
            Record::Enter { .. } | Record::Done { .. } | Record::Mismatch { .. } | Record::Log { .. } => {
                self.collect(from, record);
            }
        }
    }

    fn arrives(&mut self, from: usize, number: u64, arrived: Arrived) {
        match self.expected.remove(&(from, number)) {
            Some(receive) => self.matched(from, number, receive, arrived),
            None => _ = self.arrived.insert((from, number), arrived),
        }
    }

    /// A region is ready, and its record has arrived.
    fn matched(&mut self, from: usize, number: u64, mut receive: Receive, arrived: Arrived) {
        let expected = receive.item.bytes().len() as u64;
        let (check, len) = match &arrived {
            Arrived::Eager(check, bytes) => (*check, bytes.len() as u64),
            Arrived::Bulk(check, len, _) => (*check, *len),
            Arrived::Poison(check, _) => (*check, expected),
        };
        if (check, len) != (receive.check, expected) {
            let text = format!(
                "rank {} waits for {expected} bytes for {}, but rank {from} has sent {len} bytes for another task",
                self.rank,
                name(&receive.whose)
            );
            self.expected.insert((from, number), receive); // fails when the ranks have been told
            return self.post(0, Record::Mismatch { text });
        }
        match arrived {
            Arrived::Eager(_, bytes) => {
                receive.item.bytes().copy_from_slice(&bytes);
                receive.item.finish();
                self.peers[from].used += bytes.len();
            }
            Arrived::Bulk(.., tag) => self.transport.receive(from, tag, receive.item),
            Arrived::Poison(_, failure) => receive.item.fail(failure.into()),
        }
    }

    /// Finds that this rank waits for a rank that has left the program.
    fn check_gone(&mut self, from: usize) {
        let waits = self.expected.iter().find(|((rank, _), _)| *rank == from).map(|(_, receive)| &receive.whose);
        if !self.peers[from].gone || self.shared.broken().is_some() {
            return;
        }
        let reason = match waits {
            Some(whose) => format!("it has ended without sending what {} reads", name(whose)),
            None if self.collectives.waits_for(self.rank, from) => "it has ended without waiting for the others".into(),
            None => return,
        };
        self.break_all(Broken::Lost { rank: from, reason });
    }

    /// Ends the work of all ranks.
    fn break_all(&mut self, broken: Broken) {
        if self.shared.broken().is_some() {
            return;
        }
        self.others().for_each(|to| self.post(to, Record::Broken(broken.clone())));
        self.break_here(broken);
    }

    fn break_here(&mut self, broken: Broken) {
        self.shared.break_for(broken.clone());
        self.closing |= self.clock.as_mut().is_some_and(Clock::give_up);
        self.expected.drain().for_each(|(_, receive)| receive.item.fail(broken.clone().into()));
        self.arrived.clear();
        self.transport.abandon().into_iter().for_each(|item| item.fail(broken.clone().into()));
    }
}

impl<T: Transport + Send> Advance for Link<T> {
    fn step(&mut self, looks: bool) -> Step {
        let mut moved = self.obey();
        if looks {
            let mut events = std::mem::take(&mut self.events);
            self.transport.poll(&mut events);
            moved |= !events.is_empty();
            events.drain(..).for_each(|event| self.event(event));
            self.events = events;
        }
        (0..self.peers.len()).for_each(|to| self.flush(to));
        match (self.is_over(), moved) {
            (true, _) => Step::Over,
            (false, true) => Step::Moved,
            (false, false) if self.waits() => Step::Waits,
            (false, false) => Step::Rests,
        }
    }

    fn close(self: Box<Self>) {
        let lost = self.shared.broken().is_some();
        self.transport.close(lost);
    }
}

/// The main function of the communication thread: opens the link, and advances it until all ranks have ended.
pub(crate) fn serve(shared: &Shared, link: Box<dyn Advance>) {
    shared.set_link(link);
    let mut looks = 0u32;
    loop {
        match shared.advance_in_turn() {
            Step::Over => return shared.close_link(),
            Step::Moved => looks = 0,
            Step::Waits => {
                match looks.checked_sub(LOOKS_AWAKE) {
                    None => std::thread::yield_now(),
                    Some(asleep) => {
                        let doublings = (asleep / LOOKS).min(8);
                        shared.sleep(Some((SHORTEST_SLEEP * (1 << doublings)).min(LONGEST_SLEEP)));
                    }
                }
                looks = looks.saturating_add(1);
            }
            Step::Rests => {
                shared.sleep(None);
                looks = 0;
            }
        }
    }
}

fn name((name, place): &Whose) -> String {
    format!("`{name}`, submitted at {place}")
}
