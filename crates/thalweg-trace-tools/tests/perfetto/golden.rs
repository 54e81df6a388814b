//! Tests that the messages agree with Perfetto's schema, by decoding and re-encoding bytes that Perfetto's own
//! classes wrote.

use thalweg_trace_tools::perfetto::messages::{
    CounterDescriptor, DebugAnnotation, EXPLICIT, EventType, Interned, InternedData, NEEDS_STATE, Packets,
    ProcessDescriptor, STATE_CLEARED, TracePacket, TracePacketDefaults, TrackDescriptor, TrackEvent,
    TrackEventDefaults, UNIT_BYTES, UNIT_COUNT,
};

/// Packets, written by version 0.59.1 of Python's `perfetto` package.
const BYTES: &str = "\
    0a4a40015002621d0a050804120160120508051201611a050806120162ea010508071201636801da03045a025803e203\
    1808081201641a08080b32016642016728095803600a720165b805010a445a40180c180d220408141815220632016952\
    0168220508168801174801500e580ff00110f9021100000000000000f902120000000000000081031300000000000000\
    68020a085a064804ba01016a0a085a064803ba01016b0a085a064802ba01016c0a07e20304420218030a07e203044202\
    1802";

#[test]
fn bytes_of_perfettos_own_classes_are_decoded_and_encoded() {
    let text: Vec<char> = BYTES.chars().collect();
    let bytes: Vec<u8> = text
        .chunks(2)
        .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("two digits"))
        .collect();
    let packets = Packets {
        packet: vec![
            first(),
            event(),
            named("j", EventType::Counter),
            named("k", EventType::Instant),
            named("l", EventType::SliceEnd),
            counter(UNIT_BYTES),
            counter(UNIT_COUNT),
        ],
    };
    assert_eq!(Packets::from_bytes(&bytes).expect("packets"), packets);
    assert_eq!(packets.to_bytes(), bytes);
}

fn interned(iid: u64, name: &str) -> Vec<Interned> {
    vec![Interned { iid: Some(iid), name: Some(name.to_owned()) }]
}

fn first() -> TracePacket {
    let process =
        ProcessDescriptor { pid: Some(11), process_name: Some("f".to_owned()), process_labels: vec!["g".to_owned()] };
    TracePacket {
        timestamp: Some(1),
        trusted_packet_sequence_id: Some(2),
        sequence_flags: Some(STATE_CLEARED),
        first_packet_on_sequence: Some(true),
        trace_packet_defaults: Some(TracePacketDefaults {
            track_event_defaults: Some(TrackEventDefaults { track_uuid: Some(3) }),
        }),
        interned_data: Some(InternedData {
            event_categories: interned(4, "`"),
            event_names: interned(5, "a"),
            debug_annotation_names: interned(6, "b"),
            debug_annotation_string_values: interned(7, "c"),
        }),
        track_descriptor: Some(TrackDescriptor {
            uuid: Some(8),
            parent_uuid: Some(9),
            name: Some("d".to_owned()),
            child_ordering: Some(EXPLICIT),
            sibling_order_rank: Some(10),
            description: Some("e".to_owned()),
            process: Some(process),
            counter: None,
        }),
        track_event: None,
    }
}

fn event() -> TracePacket {
    let event = TrackEvent {
        category_iids: vec![12, 13],
        debug_annotations: vec![
            DebugAnnotation { name_iid: Some(20), uint_value: Some(21), ..DebugAnnotation::default() },
            DebugAnnotation {
                name: Some("h".to_owned()),
                string_value: Some("i".to_owned()),
                ..DebugAnnotation::default()
            },
            DebugAnnotation { name_iid: Some(22), string_value_iid: Some(23), ..DebugAnnotation::default() },
        ],
        r#type: Some(EventType::SliceBegin.into()),
        name_iid: Some(14),
        track_uuid: Some(15),
        name: None,
        counter_value: Some(16),
        flow_ids: vec![17, 18],
        terminating_flow_ids: vec![19],
    };
    TracePacket { sequence_flags: Some(NEEDS_STATE), track_event: Some(event), ..TracePacket::default() }
}

fn named(name: &str, kind: EventType) -> TracePacket {
    let event = TrackEvent { r#type: Some(kind.into()), name: Some(name.to_owned()), ..TrackEvent::default() };
    TracePacket { track_event: Some(event), ..TracePacket::default() }
}

fn counter(unit: i32) -> TracePacket {
    let track = TrackDescriptor { counter: Some(CounterDescriptor { unit: Some(unit) }), ..TrackDescriptor::default() };
    TracePacket { track_descriptor: Some(track), ..TracePacket::default() }
}
