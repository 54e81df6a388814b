//! Binary event records: sequences of 64-bit words, each written by one thread and read in the same order.
//!
//! The first word of a record holds its kind in bits 0..8, a small field in bits 8..32 and a time in bits 32..64.
//! Times are ticks of the trace's clock since the last [`BASE`] record of the same thread, so that they fit into 32
//! bits; a thread writes a new base when a time would no longer fit. Records without a time use bits 8..64 for
//! another purpose.
//!
//! A task on a core takes 24 bytes ([`NEXT`], [`DONE`]), or 32 if several threads submit tasks alternately
//! ([`SUBMITTED`]). A task with dependences takes 8 bytes more ([`SUBJECT`]), and each dependence takes 8. If a policy
//! places tasks, a task takes some 90 bytes with an estimate ([`ESTIMATED`]), because its stages interleave with those
//! of others.
//!
//! Invariants:
//! 1. The length of a record in words follows from its kind alone ([`words`]). So a reader can skip records of a
//!    known kind that it does not interpret, but not records of an unknown kind.
//! 2. [`PARENT`], [`VALUE`], [`ORDER`], [`FAR`], [`NODE`], [`ACCESS`], [`STAGE`], [`PLACED`] and [`ESTIMATED`] records
//!    concern the *subject*: the task that the latest [`SUBMITTED`], [`NEXT`] or [`SUBJECT`] record of the same thread
//!    names.
//! 3. Neither the subject nor the task before a [`NEXT`] record is named in another frame than that record, unless
//!    both frames are from the same chunk of the writer. So records can be dropped chunk by chunk.

/// Sets a new time base. Word 1: ticks since the trace began.
pub const BASE: u8 = 1;
/// A task was submitted. Small field: the task's site. Word 1: the task's number.
pub const SUBMITTED: u8 = 2;
/// Names the parent of the subject. Bits 8..64: the parent's number.
pub const PARENT: u8 = 3;
/// Names the subject of the following records. Bits 8..64: the task's number.
pub const SUBJECT: u8 = 4;
/// A dependence of the subject that carries a value. Small field: the data object. Bits 32..64: the successor's number
/// minus the predecessor's number.
pub const VALUE: u8 = 5;
/// A dependence that only orders, with the fields of [`VALUE`].
pub const ORDER: u8 = 6;
/// A dependence that fits no other record. Small field: the data object. Bit 32: whether the dependence carries a
/// value. Word 1: the predecessor's number.
pub const FAR: u8 = 7;
/// A body has ended; the record's time is its end. Small field: unit (20 bits) and outcome (4 bits). Word 1: the
/// task's number. Word 2: the body's duration in ticks (48 bits) and its device plus one (16 bits).
pub const RAN: u8 = 8;
/// The subject has reached a stage other than being placed. Small field: the stage ([`Stage`]).
pub const STAGE: u8 = 9;
/// A copy has ended. Small field: the stream on the device plus one, or 0 (20 bits), and the reason (4 bits). Word 1:
/// duration in ticks. Word 2: ticks spent waiting for the link
/// (32 bits), source space (16 bits), destination space (16 bits). Word 3: bytes. Word 4: the data object. Word 5: the
/// number of the task for which the copy was made, or [`NO_TASK`].
pub const COPY: u8 = 10;
/// A thread has ended a state other than running a body. Small field: unit (20 bits) and state (4 bits). Word 1:
/// duration in ticks.
pub const STATE: u8 = 11;
/// The bytes in use in a space have changed. Small field: the space. Word 1: bytes.
pub const MEMORY: u8 = 12;
/// Something happened to a task. Small field: the event ([`Happened`]). Word 1: the task's number.
pub const NOTE: u8 = 13;
/// A work distribution has decided on an instance. Small field: the iteration space (a site with its name). Word 1:
/// the instance. Word 2: state (8 bits) and pivot (32 bits).
pub const DECISION: u8 = 14;

/// An access by the subject, in traces that include accesses. Small field: the region. Bits
/// 32..40: the mode ([`Mode`]).
pub const ACCESS: u8 = 15;
/// A task was submitted, whose number is one more than that of the task that the same thread submitted before. Small
/// field: the task's site.
pub const NEXT: u8 = 16;
/// A short form of [`RAN`] for bodies without a device. Small field: unit (20 bits) and outcome (4 bits). Word 1: the
/// task's number (40 bits) and the body's duration in ticks (24 bits); see [`done`].
pub const DONE: u8 = 17;

/// A replay of a recording was submitted. Bit 8: whether it follows directly after the replay before. Word 1: the
/// number of the recording's first task. Word 2: the number of the replay's first task; the numbers of the others
/// follow in the order of the recording.
pub const REPLAYED: u8 = 18;
/// A replay has begun, so its tasks may run. Records of their runs name the tasks of the recording, whose replays never
/// overlap. Words 1 and 2: as in [`REPLAYED`].
pub const BEGUN: u8 = 19;
/// A join represents the tasks that use a part of a recording's border. Small field: their role ([`GateRole`]).
/// Word 1: the join's number. Word 2: the number of the recording's first task. Word 3: the number of the first task of
/// one of the consecutive replays to which the join belongs. Word 4: the part.
pub const GATE: u8 = 20;

/// A policy has chosen a unit for the subject. Small field: unit (20 bits) and policy (4 bits, [`NO_POLICY`] if it was
/// none). The names of policies are among the facts about the run.
pub const PLACED: u8 = 22;
/// Like [`PLACED`], by a policy that has an estimate. Word 1: see [`estimate`].
pub const ESTIMATED: u8 = 23;
/// A replica was dropped. Small field: space (16 bits) and reason ([`Dropped`], 8 bits). Word 1: bytes. Word 2: the
/// data object.
pub const DROPPED: u8 = 24;
/// Like [`RAN`], for a body in a stream of its device. Word 3: the number of the stream.
pub const RAN_IN_STREAM: u8 = 25;

/// A dependence of a join or on a join. Small field: the data object. Bits 32..64: see [`node`].
pub const NODE: u8 = 21;

/// Numbers from this one on stand for joins: several tasks on which others depend together.
pub const FIRST_JOIN: u64 = 1 << 55;

/// Stands for no task.
pub const NO_TASK: u64 = u64::MAX;
/// Stands for the site of a task without a site, and for the data object of a dependence without one.
pub const UNKNOWN: u32 = (1 << 24) - 1;
/// Stands for no policy.
pub const NO_POLICY: u8 = 15;
/// Stands for the unit of a thread that leads no unit.
pub const NO_UNIT: u32 = (1 << 20) - 1;

/// How a body has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// The body returned without an error.
    Done = 0,
    /// The body failed because of an error, a panic, or its device.
    Failed = 1,
    /// The body returned, but the task continues without a thread.
    Detached = 2,
}

/// A stage that a placed task reaches before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// All predecessors have ended, so the task is now with the policy.
    Ready = 0,
    /// Memory for the task's regions is reserved.
    Reserved = 1,
    /// The task's data have arrived, so the task is in its unit's queue.
    Launched = 2,
    /// The task is in its device's queue.
    Issued = 3,
    /// The task has ended, some time after its body returned ([`End::Detached`]).
    Ended = 4,
}

/// The reason why a replica was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Dropped {
    /// Its memory was needed for other data, and its contents were valid elsewhere.
    Evicted = 0,
    /// Its memory was needed for other data, and its contents were written back first.
    WrittenBack = 1,
    /// Its data object was released.
    Released = 2,
    /// Its device was lost.
    Lost = 3,
}

/// The activity of a thread between bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Between {
    /// The thread searches for a task and finds none.
    Search = 0,
    /// The thread sleeps.
    Sleep = 1,
    /// A submitter waits because too many tasks are pending.
    Throttle = 2,
    /// The program waits for tasks.
    Wait = 3,
}

/// The reason for a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// A task needs the data.
    Needed = 0,
    /// The data are evicted from a memory that has run short.
    Evicted = 1,
}

/// An event in the life of a task other than running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Happened {
    /// A predecessor failed, so the task's body did not run.
    Poisoned = 0,
    /// The device had no memory for the task.
    Refused = 1,
    /// The task was returned from a lost device.
    Returned = 2,
    /// The task was cancelled.
    Cancelled = 3,
}

/// The tasks at a part of a recording's border that a join represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum GateRole {
    /// To earlier tasks, the tasks that use contents from before the replays.
    Entry = 0,
    /// To earlier tasks, the first writers, and to later tasks the last writers. If there are no writers, all tasks
    /// that use the part.
    Border = 1,
    /// To later tasks, the tasks that use the part after the last writers.
    LastReaders = 2,
}

/// How a task accesses a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// The task reads the region.
    Read = 0,
    /// The task overwrites the region.
    Write = 1,
    /// The task reads and writes the region.
    Update = 2,
    /// The task updates the region, in any order relative to other such updates but never concurrently with them.
    Commutative = 3,
    /// The task adds to a replica, which is combined with the others later.
    Reduction = 4,
    /// The task touches no element. It only needs to be ordered, or declares the access for its children.
    Order = 5,
    /// The task updates the region atomically, concurrently with other such updates.
    Concurrent = 6,
}

/// Returns the number of words of a record of this kind, if the kind exists.
#[inline]
pub const fn words(kind: u8) -> Option<usize> {
    match kind {
        PARENT | SUBJECT | VALUE | ORDER | ACCESS | NEXT | NODE | STAGE | PLACED => Some(1),
        BASE | SUBMITTED | FAR | STATE | MEMORY | NOTE | DONE | ESTIMATED => Some(2),
        RAN | DECISION | REPLAYED | BEGUN | DROPPED => Some(3),
        RAN_IN_STREAM => Some(4),
        GATE => Some(5),
        COPY => Some(6),
        _ => None,
    }
}

/// Returns whether bits 32..64 of the first word are a time.
#[inline]
pub const fn is_timed(kind: u8) -> bool {
    !matches!(kind, BASE | PARENT | SUBJECT | VALUE | ORDER | FAR | ACCESS | NODE)
}

/// Returns a first word with a kind, small field and time.
#[inline]
pub const fn first(kind: u8, small: u32, time: u32) -> u64 {
    kind as u64 | ((small & UNKNOWN) as u64) << 8 | (time as u64) << 32
}

/// Returns a first word without a time.
#[inline]
pub const fn long(kind: u8, payload: u64) -> u64 {
    kind as u64 | payload << 8
}

/// Returns a small field that holds a unit and four bits.
#[inline]
pub const fn of_unit(unit: u32, bits: u8) -> u32 {
    (if unit < NO_UNIT { unit } else { NO_UNIT }) | (bits as u32 & 15) << 20
}

/// Returns word 1 of an [`ESTIMATED`] record: the nanoseconds that the policy expects of the task's body, and those
/// until the body's end, as two `f32` (relative precision 10⁻⁷). Unknown times are NaN.
#[inline]
pub const fn estimate(body_ns: f32, end_ns: f32) -> u64 {
    body_ns.to_bits() as u64 | (end_ns.to_bits() as u64) << 32
}

/// Returns the two times in word 1 of an [`ESTIMATED`] record in nanoseconds, as far as they are known.
#[inline]
pub fn of_estimate(word: u64) -> [Option<u64>; 2] {
    [word as u32, (word >> 32) as u32].map(|bits| {
        let ns = f32::from_bits(bits);
        (ns >= 0.0).then_some(f64::from(ns).round() as u64)
    })
}

const DONE_BITS: u32 = 40;

/// Returns whether a task's number and a duration fit into a [`DONE`] record.
#[inline]
pub const fn fits_done(task: u64, duration: u64) -> bool {
    task >> DONE_BITS == 0 && duration >> (64 - DONE_BITS) == 0
}

/// Returns word 1 of a [`DONE`] record.
#[inline]
pub const fn done(task: u64, duration: u64) -> u64 {
    task | duration << DONE_BITS
}

/// Returns the task's number and the duration in word 1 of a [`DONE`] record.
#[inline]
pub const fn of_done(word: u64) -> (u64, u64) {
    (word & ((1 << DONE_BITS) - 1), word >> DONE_BITS)
}

/// Returns bits 32..64 of a [`NODE`] record, if the predecessor's number fits: whether the dependence carries a value
/// (1 bit), whether the predecessor is a join (1 bit), and its number, or for a join the number less [`FIRST_JOIN`]
/// (30 bits).
#[inline]
pub const fn node(from: u64, carries_value: bool) -> Option<u32> {
    let is_join = from >= FIRST_JOIN;
    let number = if is_join { from - FIRST_JOIN } else { from };
    if number >> 30 == 0 { Some((number as u32) << 2 | (is_join as u32) << 1 | carries_value as u32) } else { None }
}

/// Returns the predecessor's number, and whether the dependence carries a value, in bits 32..64 of a [`NODE`] record.
#[inline]
pub const fn of_node(bits: u32) -> (u64, bool) {
    let number = (bits >> 2) as u64;
    (if bits & 2 == 0 { number } else { number + FIRST_JOIN }, bits & 1 == 1)
}

/// Returns the kind in a first word.
#[inline]
pub const fn kind_of(first: u64) -> u8 {
    first as u8
}

/// Returns the small field of a first word.
#[inline]
pub const fn small_of(first: u64) -> u32 {
    (first >> 8) as u32 & UNKNOWN
}

/// Returns the time in a first word.
#[inline]
pub const fn time_of(first: u64) -> u32 {
    (first >> 32) as u32
}

/// Returns the unit and the four bits in a small field.
#[inline]
pub const fn unit_of(small: u32) -> (u32, u8) {
    (small & NO_UNIT, (small >> 20) as u8)
}
