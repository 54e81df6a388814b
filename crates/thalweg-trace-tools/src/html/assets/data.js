// The trace's tables as typed arrays, from the blocks of columns that `html/encode.rs` wrote. Times are nanoseconds
// since the runtime was built; a time that is not known is NaN, and a position that is not known is −1.

/** Extracts a block from the page, undoing first base64 and then zlib. */
async function takeBlock(id) {
  const node = find(id);
  const text = node.textContent;
  node.remove();
  let bytes;
  if (Uint8Array.fromBase64) {
    bytes = Uint8Array.fromBase64(text);
  } else {
    const raw = atob(text);
    bytes = new Uint8Array(raw.length);
    for (let at = 0; at < raw.length; at += 1) bytes[at] = raw.charCodeAt(at);
  }
  const { readable, writable } = new DecompressionStream('deflate');
  const writer = writable.getWriter();
  // Errors during decompression are also reported through the reader.
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  return new Uint8Array(await new Response(readable).arrayBuffer());
}

/** Decodes one column of variable-length integers, `length` bytes in total, into `out`. */
function decodeColumn(bytes, at, length, kind, out) {
  const isSigned = kind !== 'plain',
    isDelta = kind === 'deltas';
  let last = 0;
  if (out.length > 1 && (length === 1 || bytes.subarray(at, at + length - 1).every((byte) => byte >= 0x80))) {
    // A single integer represents the whole column.
    const one = new Float64Array(1);
    decodeColumn(bytes, at, length, isSigned ? 'signed' : 'plain', one);
    for (let index = 0; index < out.length; index += 1) out[index] = isDelta ? one[0] * (index + 1) : one[0];
    return;
  }
  for (let index = 0; index < out.length; index += 1) {
    let byte = bytes[at++];
    let value = byte & 0x7f;
    if (byte >= 0x80) {
      byte = bytes[at++];
      value |= (byte & 0x7f) << 7;
      if (byte >= 0x80) {
        byte = bytes[at++];
        value |= (byte & 0x7f) << 14;
        // Above 21 bits, use arithmetic instead of bit operations, because numbers may exceed 32 bits.
        for (let factor = 2097152; byte >= 0x80; factor *= 128) {
          byte = bytes[at++];
          value += (byte & 0x7f) * factor;
        }
      }
    }
    if (isSigned) value = value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    if (isDelta) value = last += value;
    out[index] = value;
  }
}

/** The columns of a block, each of which is decoded when it is first requested. */
class Columns {
  constructor(directory, bytes) {
    this.bytes = bytes;
    this.entries = new Map();
    let at = 0;
    for (const [name, kind, count, length] of directory) {
      this.entries.set(name, { kind, count, length, at });
      at += length;
    }
  }

  take(name, Type = Float64Array) {
    const { kind, count, length, at } = this.entries.get(name);
    const out = new Type(count);
    decodeColumn(this.bytes, at, length, kind, out);
    return out;
  }

  /** Decodes positions that were stored plus one. */
  takeOptions(name) {
    const out = this.take(name, Int32Array);
    for (let index = 0; index < out.length; index += 1) out[index] -= 1;
    return out;
  }

  /** Decodes durations that were stored plus one; an unknown one is NaN. */
  takeDurations(name) {
    return this.take(name).map((stored) => (stored > 0 ? stored - 1 : NaN));
  }

  /** Decodes times that were stored as folded distance plus one, relative to the first known time of `references`. */
  takeTimes(name, ...references) {
    const out = this.take(name);
    for (let index = 0; index < out.length; index += 1) {
      const folded = out[index] - 1;
      if (folded < 0) {
        out[index] = NaN;
        continue;
      }
      let reference = NaN;
      for (let at = 0; reference !== reference; at += 1) reference = references[at][index];
      out[index] = reference + (folded % 2 === 0 ? folded / 2 : -(folded + 1) / 2);
    }
    return out;
  }

  /** Rows of items, each with its lanes: positions in the table, by lane. */
  takeRows(prefix) {
    const counts = this.take(`${prefix}.rows`, Int32Array);
    const items = this.take(`${prefix}.items`, Int32Array);
    const lanes = this.take(`${prefix}.lanes`, Uint8Array);
    let begin = 0;
    return Array.from(counts, (count) => {
      const all = items.subarray(begin, begin + count),
        laneOf = lanes.subarray(begin, begin + count);
      begin += count;
      const sizes = [];
      for (const lane of laneOf) sizes[lane] = (sizes[lane] ?? 0) + 1;
      const split = Array.from(sizes, (size) => new Int32Array(size ?? 0));
      const filled = new Int32Array(split.length);
      for (let at = 0; at < count; at += 1) split[laneOf[at]][filled[laneOf[at]]++] = all[at];
      return { items: all, lanes: split };
    });
  }
}

/** Decodes everything but the dependences. */
async function loadTrace() {
  const head = JSON.parse(find('head').textContent);
  const columns = new Columns(head.columns, await takeBlock('columns'));
  const submitted = columns.take('submitted');
  const ready = columns.take('ready');
  for (let task = 0; task < ready.length; task += 1) ready[task] += submitted[task];
  const start = columns.takeTimes('start', ready);
  const end = columns.takeTimes('end', start, ready);
  const site = columns.take('site', Int32Array);
  const names = new Map(head.names.map(({ name }, at) => [name, at]));
  const nameOfSite = Int32Array.from(head.sites, ([name]) => names.get(name) ?? -1);
  const trace = {
    head,
    nameOfSite,
    site,
    submitted,
    ready,
    start,
    end,
    count: site.length,
    name: site.map((number) => nameOfSite[number]),
    unit: columns.takeOptions('unit'),
    outcome: columns.take('outcome', Uint8Array),
    rows: columns.takeRows('task'),
    copyRows: columns.takeRows('copy'),
    stateRows: columns.takeRows('state'),
    copies: takeSpans(columns, 'copy', ['bytes', 'evicts', 'waited']),
    states: takeSpans(columns, 'state', ['kind']),
    memory: {
      at: columns.take('memory.at'),
      space: columns.take('memory.space'),
      bytes: columns.take('memory.bytes'),
    },
    dataNumber: columns.take('data.number'),
    dataNames: new Map(head.data_names),
    gaps: takeGaps(columns),
    notes: { at: columns.take('note.at'), task: columns.take('note.task'), kind: columns.take('note.kind') },
  };
  trace.copies.data = columns.takeOptions('copy.data');
  // Only the detail panel of a selected task needs the remaining columns.
  const later = {
    number: () => columns.take('number'),
    parent: () => columns.takeOptions('parent'),
    device: () => columns.takeOptions('device'),
    stream: () => columns.takeOptions('stream'),
    policy: () => columns.takeOptions('policy'),
    expected: () => columns.takeDurations('expected'),
    expectedEnd: () => columns.takeDurations('expected_end'),
    finished: () => columns.takeTimes('finished', end, ready),
    placed: () => columns.takeTimes('placed', ready),
    reserved: () => columns.takeTimes('reserved', trace.placed, ready),
    launched: () => columns.takeTimes('launched', trace.reserved, trace.placed, ready),
    critical: () => takePath(columns, 'critical'),
    chain: () => takePath(columns, 'chain'),
  };
  for (const [name, take] of Object.entries(later)) lazily(trace, name, take);
  let dependences;
  trace.dependences = () => (dependences ??= loadDependences(head, trace.count));
  return trace;
}

/** Defines a property that is computed when it is first read. */
function lazily(object, name, compute) {
  const get = () => {
    const value = compute();
    Object.defineProperty(object, name, { value });
    return value;
  };
  Object.defineProperty(object, name, { get, configurable: true });
}

function takeSpans(columns, prefix, fields) {
  const end = columns.take(`${prefix}.end`);
  const start = columns.take(`${prefix}.duration`);
  for (let at = 0; at < end.length; at += 1) start[at] = end[at] - start[at];
  return { start, end, ...Object.fromEntries(fields.map((field) => [field, columns.take(`${prefix}.${field}`)])) };
}

/** Gaps between bodies with their causes, and the position of each unit's first gap. */
function takeGaps(columns) {
  const start = columns.take('gap.start'),
    end = columns.take('gap.duration');
  for (let at = 0; at < end.length; at += 1) end[at] += start[at];
  return {
    rows: columns.take('gap.rows', Int32Array),
    start,
    end,
    activity: columns.take('gap.activity', Uint8Array),
  };
}

/** The tasks of a path in order of time, with the reason for each start and the time of that reason. */
function takePath(columns, prefix) {
  return {
    tasks: columns.take(`${prefix}.task`, Int32Array),
    reasons: columns.takeOptions(`${prefix}.reason`),
    since: columns.take(`${prefix}.since`),
  };
}

/**
 * Decodes dependences and accesses. Dependences of task `t` as successor are `firstOf[t] .. firstOf[t + 1]`; those as
 * predecessor are at the positions `outgoing[firstOut[t] .. firstOut[t + 1]]`.
 */
async function loadDependences(head, count) {
  // Their block is the last of the page, and may still be on its way.
  if (document.readyState === 'loading')
    await new Promise((next) => document.addEventListener('DOMContentLoaded', next));
  const columns = new Columns(head.dependences, await takeBlock('dependences'));
  const counts = columns.take('edges', Int32Array);
  const from = columns.take('edge.back', Int32Array),
    to = new Int32Array(from.length);
  const firstOf = new Int32Array(count + 1),
    firstOut = new Int32Array(count + 1);
  for (let task = 0; task < count; task += 1) {
    firstOf[task + 1] = firstOf[task] + counts[task];
    for (let edge = firstOf[task]; edge < firstOf[task + 1]; edge += 1) {
      from[edge] = task - from[edge];
      to[edge] = task;
      firstOut[from[edge] + 1] += 1;
    }
  }
  for (let task = 0; task < count; task += 1) firstOut[task + 1] += firstOut[task];
  const next = firstOut.slice(),
    outgoing = new Int32Array(from.length);
  for (let edge = 0; edge < from.length; edge += 1) outgoing[next[from[edge]]++] = edge;
  const accesses = columns.take('accesses', Int32Array),
    firstAccess = new Int32Array(count + 1);
  for (let task = 0; task < count; task += 1) firstAccess[task + 1] = firstAccess[task] + accesses[task];
  return {
    from,
    to,
    about: columns.take('edge.data', Int32Array),
    firstOf,
    firstOut,
    outgoing,
    firstAccess,
    region: columns.takeOptions('access.region'),
    mode: columns.take('access.mode', Uint8Array),
    regionData: columns.takeOptions('region.data'),
    regionBytes: columns.take('region.bytes'),
  };
}
