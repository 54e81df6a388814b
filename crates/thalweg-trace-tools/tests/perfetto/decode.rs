//! A strict reader of `.pftrace` files, which panics on anything that a viewer would have to guess or skip.

use std::collections::{BTreeMap, HashMap};
use thalweg_trace_tools::perfetto::messages::{
    DebugAnnotation, EventType, Interned, InternedData, NEEDS_STATE, Packets, STATE_CLEARED, TracePacket,
    TrackDescriptor, TrackEvent,
};

/// A slice, or a mark without an end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slice {
    pub(crate) track: u64,
    pub(crate) name: String,
    pub(crate) categories: Vec<String>,
    pub(crate) start: u64,
    pub(crate) end: Option<u64>,
    /// The number of slices on the same track that contain this slice.
    pub(crate) depth: usize,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The contents of a file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) tracks: HashMap<u64, TrackDescriptor>,
    pub(crate) slices: Vec<Slice>,
    pub(crate) marks: Vec<Slice>,
    /// The points of counters, keyed by track name.
    pub(crate) counters: BTreeMap<String, Vec<(u64, i64)>>,
    /// The slices at both ends of each arrow, keyed by arrow ID.
    pub(crate) arrows: BTreeMap<u64, (usize, usize)>,
    /// The total size of slice packets, keyed by the first category of the slice that begins or ends.
    pub(crate) bytes: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Sequence {
    track: u64,
    time: u64,
    texts: [HashMap<u64, String>; 4],
    /// The open slices, outermost first.
    open: Vec<usize>,
}

impl Sequence {
    fn learn(&mut self, data: &InternedData) {
        let lists = [
            &data.event_categories,
            &data.event_names,
            &data.debug_annotation_names,
            &data.debug_annotation_string_values,
        ];
        for (texts, list) in self.texts.iter_mut().zip(lists) {
            for Interned { iid, name } in list {
                let (iid, name) = (iid.expect("a text has a number"), name.clone().expect("a number has a text"));
                assert!(iid > 0, "0 means none");
                assert_eq!(texts.insert(iid, name), None, "text {iid} is written twice");
            }
        }
    }

    fn name(&self, event: &TrackEvent) -> String {
        match event.name_iid {
            Some(iid) => self.texts[1][&iid].clone(),
            None => event.name.clone().expect("a slice has a name"),
        }
    }

    fn annotation(&self, annotation: &DebugAnnotation) -> (String, String) {
        let key = match annotation.name_iid {
            Some(iid) => self.texts[2][&iid].clone(),
            None => annotation.name.clone().expect("an annotation has a key"),
        };
        let value = match (annotation.uint_value, annotation.string_value_iid) {
            (Some(number), None) => number.to_string(),
            (None, Some(iid)) => self.texts[3][&iid].clone(),
            _ => annotation.string_value.clone().expect("an annotation has a value"),
        };
        (key, value)
    }

    fn slice(&self, event: &TrackEvent, start: u64) -> Slice {
        let categories: Vec<String> = event.category_iids.iter().map(|iid| self.texts[0][iid].clone()).collect();
        assert!(!categories.is_empty(), "a slice has a category");
        Slice {
            track: self.track,
            name: self.name(event),
            categories,
            start,
            end: None,
            depth: self.open.len(),
            annotations: event.debug_annotations.iter().map(|annotation| self.annotation(annotation)).collect(),
        }
    }
}

/// Reads the bytes of a file.
pub(crate) fn decode(bytes: &[u8]) -> File {
    let packets = Packets::from_bytes(bytes).expect("the file is a protobuf");
    let mut file = File::default();
    let mut sequences: HashMap<u32, Sequence> = HashMap::new();
    // Arrows that have begun but not yet ended.
    let mut begun: HashMap<u64, usize> = HashMap::new();
    for packet in &packets.packet {
        let id = packet.trusted_packet_sequence_id.expect("a packet belongs to a sequence");
        if let Some(track) = &packet.track_descriptor {
            assert_eq!(packet.sequence_flags, Some(STATE_CLEARED));
            let uuid = track.uuid.expect("a track has a number");
            let defaults = packet.trace_packet_defaults.as_ref().and_then(|of| of.track_event_defaults.as_ref());
            assert_eq!(defaults.and_then(|defaults| defaults.track_uuid), Some(uuid));
            assert!(track.parent_uuid.is_none_or(|parent| file.tracks.contains_key(&parent)), "parents come first");
            assert_eq!(file.tracks.insert(uuid, track.clone()), None, "track {uuid} is there twice");
            let sequence = Sequence { track: uuid, ..Sequence::default() };
            assert!(sequences.insert(id, sequence).is_none(), "sequence {id} begins twice");
        } else {
            assert_eq!(packet.sequence_flags, Some(NEEDS_STATE));
        }
        let sequence = sequences.get_mut(&id).expect("a sequence begins with its track");
        if let Some(data) = &packet.interned_data {
            sequence.learn(data);
        }
        let Some(event) = &packet.track_event else { continue };
        let time = packet.timestamp.expect("an event has a time");
        assert!(time >= sequence.time, "a sequence is in the order of time");
        sequence.time = time;
        let size = length(packet);
        match event.r#type() {
            EventType::SliceBegin => {
                let at = file.slices.len();
                for arrow in &event.flow_ids {
                    assert_eq!(begun.insert(*arrow, at), None, "arrow {arrow} begins twice");
                }
                for arrow in &event.terminating_flow_ids {
                    let from = begun.remove(arrow).expect("an arrow that ends has begun");
                    assert_eq!(file.arrows.insert(*arrow, (from, at)), None, "arrow {arrow} ends twice");
                }
                file.slices.push(sequence.slice(event, time));
                sequence.open.push(at);
                *file.bytes.entry(file.slices[at].categories[0].clone()).or_default() += size;
            }
            EventType::SliceEnd => {
                let at = sequence.open.pop().expect("a slice that ends has begun");
                file.slices[at].end = Some(time);
                *file.bytes.entry(file.slices[at].categories[0].clone()).or_default() += size;
            }
            EventType::Instant => file.marks.push(sequence.slice(event, time)),
            EventType::Counter => {
                let track = &file.tracks[&sequence.track];
                assert!(track.counter.is_some(), "values belong to counters");
                let value = event.counter_value.expect("a counter has a value");
                file.counters.entry(track.name.clone().expect("a counter has a name")).or_default().push((time, value));
            }
            EventType::Unspecified => panic!("an event has a type"),
        }
    }
    assert!(begun.is_empty(), "{} arrows never end", begun.len());
    assert!(file.slices.iter().all(|slice| slice.end.is_some()), "a slice never ends");
    file
}

/// Returns the size of a packet in the file, including its field number and length.
fn length(packet: &TracePacket) -> usize {
    Packets { packet: vec![packet.clone()] }.to_bytes().len()
}
