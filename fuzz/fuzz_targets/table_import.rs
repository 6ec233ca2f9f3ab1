//! The decoder of exported tables, which also decodes the pages of RDB bodies. The input is an export without its first
//! five bytes and its checksum. The target adds both, so that mutations reach the pages.
#![no_main]

use countint_core::countint::Overflow;
use countint_core::counttab::{BlobLoader, CountTab};
use libfuzzer_sys::fuzz_target;

fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut export = [b"CTAB\x01", bytes].concat();
    let crc = !export.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ ((crc & 1) * 0xedb8_8320)
        })
    });
    export.extend_from_slice(&crc.to_le_bytes());
    export
}

fn reloaded(table: &CountTab) -> CountTab {
    let fences = table.save_fences();
    let mut loader = BlobLoader::new(table.len() as u64, table.rows(), &fences)
        .expect("a saved header is valid");
    table.save_blobs(&mut |blob| loader.push(blob).expect("a saved blob is valid"));
    loader.finish().expect("saved blobs are valid")
}

fuzz_target!(|input: (u64, &[u8])| {
    let (id, bytes) = input;
    let Ok(mut table) = CountTab::from_export(&with_checksum(bytes)) else {
        return;
    };
    table.validate().expect("an imported table is valid");
    assert_eq!(reloaded(&table), table);
    let export = table
        .export(0, u64::MAX, usize::MAX)
        .expect("an export without limit");
    assert_eq!(CountTab::from_export(&export), Ok(table.clone()));
    // A loaded table can be changed.
    let last = table.len() - 1;
    let value = table.get(id, last).expect("a valid index").unwrap_or(0);
    let step = table.incr(id, last, i64::MAX, Overflow::Saturate);
    assert_eq!(step.expect("a valid index").counter.old, value);
    table.validate().expect("a changed table is valid");
    assert!(table.remove(id) && !table.contains(id));
    table.validate().expect("a table without a row is valid");
});
