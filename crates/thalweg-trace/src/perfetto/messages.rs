//! Messages of Perfetto's protobuf schema, with the fields that this crate writes.
//!
//! Names and numbers of fields are those of Perfetto's public schema (`protos/perfetto/trace`); fields that a message
//! has there and not here are skipped by a decoder. Alternatives (`oneof`) are separate optional fields here, which
//! is the same on the wire; at most one of them is set.
//!
//! The messages are public for programs and tests that read a file back. They contain no logic.

use prost::Message;

/// A whole file.
#[derive(Clone, PartialEq, Message)]
pub struct Packets {
    /// The packets, in the order of the file.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

impl Packets {
    /// Decodes a file.
    ///
    /// # Errors
    /// If the bytes are no protobuf of this schema.
    pub fn from_bytes(bytes: &[u8]) -> std::io::Result<Self> {
        Self::decode(bytes).map_err(std::io::Error::other)
    }

    /// Encodes a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// An entry of the file.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// The sequence that defaults and interned names belong to.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// An event on a track.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// Names that this and later packets of the sequence refer to.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// [`STATE_CLEARED`] and [`NEEDS_STATE`].
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// Defaults for later packets of the sequence.
    #[prost(message, optional, tag = "59")]
    pub trace_packet_defaults: Option<TracePacketDefaults>,
    /// A new track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
    /// No packet of the sequence came earlier.
    #[prost(bool, optional, tag = "87")]
    pub first_packet_on_sequence: Option<bool>,
}

/// Flag of a packet that refers to no earlier packet of its sequence.
pub const STATE_CLEARED: u32 = 1;
/// Flag of a packet that needs the defaults or names of earlier packets.
pub const NEEDS_STATE: u32 = 2;

/// Defaults of a sequence.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacketDefaults {
    /// Those of events.
    #[prost(message, optional, tag = "11")]
    pub track_event_defaults: Option<TrackEventDefaults>,
}

/// Defaults of the events of a sequence.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEventDefaults {
    /// Their track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
}

/// An event on a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Interned categories.
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub category_iids: Vec<u64>,
    /// Keys and values that the viewer shows of a selected slice.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// The kind of event.
    #[prost(enumeration = "EventType", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// Its interned name.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// Its track, if it is not the default one.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Its name, if that is not interned.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// The new value of a counter.
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    /// Arrows that begin here.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Arrows that end here.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum EventType {
    /// None.
    Unspecified = 0,
    /// A slice begins.
    SliceBegin = 1,
    /// The innermost slice ends.
    SliceEnd = 2,
    /// A mark without duration.
    Instant = 3,
    /// A counter has a new value.
    Counter = 4,
}

/// A key with a value.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// The interned key.
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

/// Texts that packets of the sequence refer to by number.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    /// For `category_iids`.
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<Interned>,
    /// For the `name_iid` of events.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<Interned>,
    /// For the `name_iid` of annotations.
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<Interned>,
    /// For `string_value_iid`.
    #[prost(message, repeated, tag = "29")]
    pub debug_annotation_string_values: Vec<Interned>,
}

/// A text and its number.
#[derive(Clone, PartialEq, Message)]
pub struct Interned {
    /// The number, from 1 on.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The text.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

/// A track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Its number, unlike all others of all files.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Its name; tracks with one parent and one name share a row of the screen.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Says that it is the track of a process.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// The track that it is shown below.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// Says that it is a counter.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    /// The order of the tracks below it: [`EXPLICIT`].
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// Its place among its siblings.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
    /// A text about it.
    #[prost(string, optional, tag = "14")]
    pub description: Option<String>,
}

/// An order of tracks by `sibling_order_rank`.
pub const EXPLICIT: i32 = 3;

/// A process.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    /// Its number.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Its name.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
    /// Texts that the viewer shows with the name.
    #[prost(string, repeated, tag = "8")]
    pub process_labels: Vec<String>,
}

/// A counter.
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    /// [`UNIT_COUNT`] or [`UNIT_BYTES`].
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
}

/// The unit of a number of things.
pub const UNIT_COUNT: i32 = 2;
/// The unit of sizes.
pub const UNIT_BYTES: i32 = 3;
