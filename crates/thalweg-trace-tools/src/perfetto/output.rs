//! The output file and its packet sequences.
//!
//! Each track has its own sequence. Its first packet describes the track and makes it the default for later events,
//! so events need not name their track. Texts are interned: a sequence writes each text once, with the first event
//! that uses it. Times are absolute nanoseconds since the runtime was built, on the clock that viewers assume by
//! default. So a file needs no clock snapshots, and files can be concatenated.
//!
//! Packets are encoded one at a time and never kept.

use super::messages::{
    EventType, Interned, InternedData, NEEDS_STATE, STATE_CLEARED, TracePacket, TracePacketDefaults, TrackDescriptor,
    TrackEvent, TrackEventDefaults,
};
use prost::Message;
use std::collections::HashSet;
use std::io::{self, Write};

/// The tag of the `packet` field in the file's top-level message: the field number and the wire type.
const PACKET: u8 = 1 << 3 | 2;

/// A file that packets are written to.
pub(super) struct Output<W> {
    to: W,
    buffer: Vec<u8>,
}

impl<W: Write> Output<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, buffer: Vec::new() }
    }

    fn packet(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.push(PACKET);
        packet.encode_length_delimited(&mut self.buffer).map_err(io::Error::other)?;
        self.to.write_all(&self.buffer)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Event categories. A category's ID is its position here plus one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Category {
    Task,
    Failed,
    State,
    Copy,
    Eviction,
    Note,
    Decision,
    Run,
}

impl Category {
    const NAMES: [&str; 8] = ["task", "failed", "state", "copy", "eviction", "note", "decision", "run"];

    pub(super) fn iid(self) -> u64 {
        self as u64 + 1
    }
}

/// Annotation keys. A key's ID is its position here plus one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Key {
    Task,
    Source,
    Submitted,
    Ready,
    Delay,
    Parent,
    Submitter,
    Bytes,
    Served,
    Ordered,
    Waited,
    Name,
    Instance,
    State,
    Pivot,
    Policy,
    Expected,
    ExpectedEnd,
    Stream,
    Space,
    Reason,
}

impl Key {
    const NAMES: [&str; 21] = [
        "task",
        "source",
        "submitted (ns)",
        "ready (ns)",
        "ready to start (ns)",
        "parent task",
        "submitting thread",
        "bytes",
        "for task",
        "ordered (ns)",
        "waited for the link (ns)",
        "name",
        "instance",
        "state",
        "pivot",
        "placed by",
        "expected duration (ns)",
        "ready to expected end (ns)",
        "stream",
        "space",
        "reason",
    ];

    pub(super) fn iid(self) -> u64 {
        self as u64 + 1
    }
}

/// The packets of one track.
pub(super) struct Sequence {
    id: u32,
    names: HashSet<u64>,
    strings: HashSet<u64>,
    /// Newly interned texts, which are written with the next event.
    fresh: InternedData,
}

impl Sequence {
    /// Writes the first packet. `id` is unique in the file and not 0.
    pub(super) fn start<W: Write>(output: &mut Output<W>, id: u32, track: TrackDescriptor) -> io::Result<Self> {
        let numbered = |names: &[&str]| (1..).zip(names).map(|(iid, name)| interned(iid, (*name).to_owned())).collect();
        output.packet(&TracePacket {
            trusted_packet_sequence_id: Some(id),
            sequence_flags: Some(STATE_CLEARED),
            first_packet_on_sequence: Some(true),
            trace_packet_defaults: Some(TracePacketDefaults {
                track_event_defaults: Some(TrackEventDefaults { track_uuid: track.uuid }),
            }),
            interned_data: track.counter.is_none().then(|| InternedData {
                event_categories: numbered(&Category::NAMES),
                debug_annotation_names: numbered(&Key::NAMES),
                ..InternedData::default()
            }),
            track_descriptor: Some(track),
            ..TracePacket::default()
        })?;
        Ok(Self { id, names: HashSet::new(), strings: HashSet::new(), fresh: InternedData::default() })
    }

    /// Interns `text` under `iid` unless that was done before, so that the next event can use the ID as its name.
    /// Returns the ID.
    pub(super) fn name(&mut self, iid: u64, text: impl FnOnce() -> String) -> u64 {
        if self.names.insert(iid) {
            self.fresh.event_names.push(interned(iid, text()));
        }
        iid
    }

    /// Interns `text` under `iid` unless that was done before, so that the next event can use the ID as an
    /// annotation's value. Returns the ID.
    pub(super) fn string(&mut self, iid: u64, text: impl FnOnce() -> String) -> u64 {
        if self.strings.insert(iid) {
            self.fresh.debug_annotation_string_values.push(interned(iid, text()));
        }
        iid
    }

    /// Writes an event.
    pub(super) fn event<W: Write>(
        &mut self,
        output: &mut Output<W>,
        time: u64,
        kind: EventType,
        event: TrackEvent,
    ) -> io::Result<()> {
        let has_fresh = !self.fresh.event_names.is_empty() || !self.fresh.debug_annotation_string_values.is_empty();
        output.packet(&TracePacket {
            timestamp: Some(time),
            trusted_packet_sequence_id: Some(self.id),
            track_event: Some(TrackEvent { r#type: Some(kind.into()), ..event }),
            interned_data: has_fresh.then(|| std::mem::take(&mut self.fresh)),
            sequence_flags: Some(NEEDS_STATE),
            ..TracePacket::default()
        })
    }
}

fn interned(iid: u64, name: String) -> Interned {
    Interned { iid: Some(iid), name: Some(name) }
}
