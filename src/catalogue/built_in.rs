//! The machines that are built in: the files of `catalogue/`.

use std::sync::OnceLock;

use super::entry::Entry;

/// The machines that are built in.
pub fn built_in() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    #[allow(clippy::expect_used, reason = "a test reads every file of the catalogue")]
    ENTRIES.get_or_init(|| {
        let parse = |text: &&str| Entry::parse(text).expect("a file of the catalogue");
        FILES.iter().map(|(_, text)| text).map(parse).collect()
    })
}

/// The files of the catalogue by name.
pub(super) const FILES: &[(&str, &str)] = &[
    ("amd-zen-3-2cpu-kvm-guest.json", include_str!("../../catalogue/amd-zen-3-2cpu-kvm-guest.json")),
    ("amd-zen-4-2cpu-kvm-guest.json", include_str!("../../catalogue/amd-zen-4-2cpu-kvm-guest.json")),
    ("amd-zen-5-2cpu-kvm-guest.json", include_str!("../../catalogue/amd-zen-5-2cpu-kvm-guest.json")),
    ("intel-golden-cove-16cpu-kvm-guest.json", include_str!("../../catalogue/intel-golden-cove-16cpu-kvm-guest.json")),
    (
        "intel-golden-cove-2cpu-kvm-guest-2.json",
        include_str!("../../catalogue/intel-golden-cove-2cpu-kvm-guest-2.json"),
    ),
    ("intel-golden-cove-2cpu-kvm-guest.json", include_str!("../../catalogue/intel-golden-cove-2cpu-kvm-guest.json")),
    ("intel-redwood-cove-2cpu-kvm-guest.json", include_str!("../../catalogue/intel-redwood-cove-2cpu-kvm-guest.json")),
];
