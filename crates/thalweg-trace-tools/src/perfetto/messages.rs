//! Messages of Perfetto's protobuf schema, restricted to the fields that this crate writes.
//!
//! Field names and numbers match Perfetto's public schema (`protos/perfetto/trace`). When decoding, fields that are
//! not declared here are skipped. A `oneof` is declared as separate optional fields, of which at most one is set;
//! the wire format is the same.
//!
//! The messages are public so that programs and tests can read a file back. They contain no logic.

use prost::Message;

/// A complete trace file.
#[derive(Clone, PartialEq, Message)]
pub struct Packets {
    /// The packets, in file order.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

impl Packets {
    /// Decodes a file.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a valid protobuf message of this schema.
    pub fn from_bytes(bytes: &[u8]) -> std::io::Result<Self> {
        Self::decode(bytes).map_err(std::io::Error::other)
    }

    /// Encodes a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// A packet: one entry of the file.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// The packet's time, in nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// The sequence that defaults and interned names belong to.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// An event on a track.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// Interned names that this packet and later packets of the sequence refer to.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// Bit mask of [`STATE_CLEARED`] and [`NEEDS_STATE`].
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// Defaults for later packets of the sequence.
    #[prost(message, optional, tag = "59")]
    pub trace_packet_defaults: Option<TracePacketDefaults>,
    /// The description of a new track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
    /// Whether this is the first packet of its sequence.
    #[prost(bool, optional, tag = "87")]
    pub first_packet_on_sequence: Option<bool>,
}

/// Flag of a packet that does not depend on any earlier packet of its sequence.
pub const STATE_CLEARED: u32 = 1;
/// Flag of a packet that depends on defaults or names from earlier packets of its sequence.
pub const NEEDS_STATE: u32 = 2;

/// Defaults of a sequence.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacketDefaults {
    /// Defaults for events.
    #[prost(message, optional, tag = "11")]
    pub track_event_defaults: Option<TrackEventDefaults>,
}

/// Defaults of the events of a sequence.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEventDefaults {
    /// The default track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
}

/// An event on a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Interned categories.
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub category_iids: Vec<u64>,
    /// Keys and values that the viewer shows for a selected slice.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// The kind of event.
    #[prost(enumeration = "EventType", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// The event's name, if it is interned.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// The event's track, if it is not the default one.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// The event's name, if it is not interned.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// The new value of a counter.
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    /// IDs of the arrows that start at this event.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// IDs of the arrows that end at this event.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum EventType {
    /// No event type is given.
    Unspecified = 0,
    /// A slice begins.
    SliceBegin = 1,
    /// The innermost open slice ends.
    SliceEnd = 2,
    /// A mark without duration.
    Instant = 3,
    /// A counter has a new value.
    Counter = 4,
}

/// A key-value pair attached to an event.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// The key, if it is interned.
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    /// The value, if it is a number.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// The value, if it is a text.
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
    /// The key, if it is not interned.
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
    /// The value, if it is an interned text.
    #[prost(uint64, optional, tag = "17")]
    pub string_value_iid: Option<u64>,
}

/// Interned texts, which packets of the sequence refer to by ID.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    /// Texts for `category_iids`.
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<Interned>,
    /// Texts for the `name_iid` of events.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<Interned>,
    /// Texts for the `name_iid` of annotations.
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<Interned>,
    /// Texts for `string_value_iid`.
    #[prost(message, repeated, tag = "29")]
    pub debug_annotation_string_values: Vec<Interned>,
}

/// An interned text with its ID.
#[derive(Clone, PartialEq, Message)]
pub struct Interned {
    /// The ID, counting from 1.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The text.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

/// A track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// The track's ID, unique among the tracks of all files.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// The track's name. Tracks with the same parent and the same name share a row on the screen.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// The process, if this is the track of a process.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// The ID of the parent, below which this track is shown.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// The counter, if this is the track of a counter.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    /// How child tracks are ordered: [`EXPLICIT`].
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// The track's rank among its siblings.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
    /// A description of the track.
    #[prost(string, optional, tag = "14")]
    pub description: Option<String>,
}

/// Child tracks are ordered by their `sibling_order_rank`.
pub const EXPLICIT: i32 = 3;

/// The description of a process.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    /// The process ID.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// The process name.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
    /// Labels that the viewer shows next to the name.
    #[prost(string, repeated, tag = "8")]
    pub process_labels: Vec<String>,
}

/// The description of a counter.
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    /// [`UNIT_COUNT`] or [`UNIT_BYTES`].
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
}

/// The unit of counts.
pub const UNIT_COUNT: i32 = 2;
/// The unit of sizes.
pub const UNIT_BYTES: i32 = 3;
