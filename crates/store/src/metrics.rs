//! The counters of a store in the Prometheus text format.

use std::fmt::Write;

use crate::api::{Home, SetInfo};
use crate::error::Result;

/// The counters of a store, and of its sets that have a name, in the Prometheus text format.
///
/// # Errors
/// When the connection to the store is lost, or the store is closed.
pub fn prometheus(home: &dyn Home) -> Result<String> {
    let c = home.counters()?;
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, values: &[(&str, u64)]| {
        let _ = writeln!(text, "# HELP craton_{name} {help}\n# TYPE craton_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "craton_{name}{labels} {value}");
        }
    };
    metric("slab_used_bytes", "gauge", "Shared memory in extents.", &[("", c.slab_used)]);
    metric("slab_reserved_bytes", "gauge", "Address space of all segments.", &[("", c.slab_reserved)]);
    metric("limit_bytes", "gauge", "Limit of extents and reservations together.", &[("", c.limit)]);
    metric("reserved_bytes", "gauge", "Memory reserved for other work.", &[("", c.reserved)]);
    let places = [("{place=\"memory\"}", c.page_memory), ("{place=\"disk\"}", c.page_disk)];
    metric("page_bytes", "gauge", "Bytes of pages in memory, and of page images on disk.", &places);
    metric("sets", "gauge", "Locality sets.", &[("", c.sets)]);
    metric("pages", "gauge", "Pages.", &[("", c.pages)]);
    metric("clients", "gauge", "Clients connected.", &[("", c.clients)]);
    let pins = [("{found=\"memory\"}", c.hits), ("{found=\"disk\"}", c.misses)];
    metric("pins_total", "counter", "Pins, by where the page was found.", &pins);
    let evicted = [
        ("{cause=\"ended\"}", c.evicted_ended),
        ("{cause=\"clean\"}", c.evicted_clean),
        ("{cause=\"written\"}", c.evicted_written),
        ("{cause=\"discarded\"}", c.evicted_discarded),
    ];
    metric("evictions_total", "counter", "Pages evicted, by the kind of eviction.", &evicted);
    metric("written_bytes_total", "counter", "Bytes written to disk.", &[("", c.written)]);
    metric("read_bytes_total", "counter", "Bytes read from disk.", &[("", c.read)]);
    let sealed = [("{how=\"copied\"}", c.copied), ("{how=\"shared\"}", c.shared), ("{how=\"adopted\"}", c.adopted)];
    metric("sealed_bytes_total", "counter", "Bytes of sealed pages, copied, shared or taken over.", &sealed);

    let sets: Vec<(String, SetInfo)> = home
        .describe()?
        .into_iter()
        .filter_map(|info| info.options.name.as_ref().map(|name| escape(name)).map(|name| (name, info)))
        .collect();
    type Value = fn(&SetInfo) -> u64;
    let by_set: [(&str, &str, &str, Value); 6] = [
        ("set_pages", "gauge", "Pages of a named set.", |set| set.pages),
        ("set_memory_bytes", "gauge", "Bytes of a named set's pages in memory.", |set| set.memory),
        ("set_disk_bytes", "gauge", "Bytes of a named set's page images.", |set| set.disk),
        ("set_pinned_pages", "gauge", "Pinned pages of a named set.", |set| set.pins),
        ("set_hits_total", "counter", "Pins of a named set that found the page in memory.", |set| set.hits),
        ("set_misses_total", "counter", "Pins of a named set that had to read the page.", |set| set.misses),
    ];
    for (name, kind, help, value) in by_set {
        let labels: Vec<(String, u64)> =
            sets.iter().map(|(label, info)| (format!("{{set=\"{label}\"}}"), value(info))).collect();
        let values: Vec<(&str, u64)> = labels.iter().map(|(label, value)| (label.as_str(), *value)).collect();
        metric(name, kind, help, &values);
    }
    Ok(text)
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
