"""Reads a Perfetto trace with the messages of the `perfetto` package; prints what is in it as lines `key value`."""

import sys
from collections import Counter

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent


def check(path):
    trace = Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    facts, texts, default, open_slices = Counter(), {}, {}, {}
    begun, tracks = {}, {}
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        assert sequence, "a packet belongs to a sequence"
        if packet.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            texts[sequence] = {}
            default[sequence] = packet.trace_packet_defaults.track_event_defaults.track_uuid
        known = texts[sequence]
        interned = packet.interned_data
        for kind in ("event_categories", "event_names", "debug_annotation_names"):
            known.update({(kind, entry.iid): entry.name for entry in getattr(interned, kind)})
        for entry in interned.debug_annotation_string_values:
            known["text", entry.iid] = entry.str.decode()
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            tracks[track.uuid] = track
            facts["processes"] += track.HasField("process")
        if not packet.HasField("track_event"):
            continue
        assert packet.HasField("timestamp")
        event = packet.track_event
        uuid = event.track_uuid or default[sequence]
        assert uuid in tracks
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            category = known["event_categories", event.category_iids[0]]
            assert known["event_names", event.name_iid]
            facts["begin " + category] += 1
            open_slices[uuid] = open_slices.get(uuid, 0) + 1
            begun.update((flow, packet.timestamp) for flow in event.flow_ids)
            for flow in event.terminating_flow_ids:
                assert begun.pop(flow) <= packet.timestamp
                facts["arrows"] += 1
            for annotation in event.debug_annotations:
                key = known["debug_annotation_names", annotation.name_iid]
                value = annotation.WhichOneof("value")
                if value == "string_value_iid":
                    assert known["text", annotation.string_value_iid]
                else:
                    assert value == "uint_value", value
                facts["annotation " + key] += 1
                if key == "task":
                    facts["sum of tasks"] += annotation.uint_value
        elif event.type == TrackEvent.TYPE_SLICE_END:
            open_slices[uuid] -= 1
            assert open_slices[uuid] >= 0
            facts["end"] += 1
        elif event.type == TrackEvent.TYPE_COUNTER:
            assert tracks[uuid].HasField("counter")
            facts["points of " + tracks[uuid].name] += 1
            facts["sum of " + tracks[uuid].name] += event.counter_value
        else:
            assert event.type == TrackEvent.TYPE_INSTANT
            facts["marks"] += 1
    assert not begun and not any(open_slices.values())
    facts["unknown"] = unknown_fields(trace)
    for key, value in sorted(facts.items()):
        print(f"{key}\t{value}")


def unknown_fields(message):
    """The number of fields that the package's schema does not know, in a message and all within it."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    number = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            values = [value] if hasattr(value, "ListFields") else value
            number += sum(unknown_fields(inner) for inner in values)
    return number


check(sys.argv[1])
