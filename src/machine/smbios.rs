//! Memory modules as the firmware lists them: SMBIOS structures of type 17 ("Memory Device").
//!
//! Layout: DMTF DSP0134 (SMBIOS 3.7), sections 6.1 and 7.18.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The table of structures; readable by root only.
pub(super) const TABLE: &str = "/sys/firmware/dmi/tables/DMI";

/// Offsets of the names of slot and bank, and of the kind of memory.
const SLOT: usize = 0x10;
const BANK: usize = 0x11;
const KIND: usize = 0x12;

/// One memory module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Module {
    /// Size in bytes, above 0.
    pub size_bytes: u64,
    /// Kind of memory, such as `DDR4`.
    pub kind: Option<String>,
    /// Data width in bits, without error correction.
    pub data_bits: Option<u32>,
    /// Transfers per second that the module is configured for, or else that it is capable of.
    pub transfers_per_second: Option<u64>,
    /// Name of the slot.
    pub slot: String,
    /// Name of the bank.
    pub bank: String,
    /// Maker and part number.
    pub product: String,
}

/// The modules that are plugged in, from the raw table. A table that is cut off gives the modules before the cut.
pub fn modules(table: &[u8]) -> Vec<Module> {
    devices(table).iter().filter_map(module).collect()
}

/// The structures of memory devices, empty slots included.
fn devices(table: &[u8]) -> Vec<Structure<'_>> {
    /// More than any board has slots. Slots are compared with each other, and a forged table has a million.
    const MOST: usize = 4096;
    const MEMORY_DEVICE: u8 = 17;
    const END_OF_TABLE: u8 = 127;
    let mut found = Vec::new();
    let mut rest = table;
    while let Some((structure, next)) = Structure::split(rest).filter(|_| found.len() < MOST) {
        match structure.kind {
            MEMORY_DEVICE => found.push(structure),
            END_OF_TABLE => break,
            _ => {}
        }
        rest = next;
    }
    found
}

/// One structure: the formatted area, and the strings behind it.
struct Structure<'a> {
    kind: u8,
    formatted: &'a [u8],
    strings: &'a [u8],
}

impl<'a> Structure<'a> {
    /// The first structure of a table, and the table behind it.
    fn split(table: &'a [u8]) -> Option<(Structure<'a>, &'a [u8])> {
        /// Type, length and handle.
        const HEADER: usize = 4;
        let (kind, length) = (*table.first()?, usize::from(*table.get(1)?));
        if length < HEADER || length > table.len() {
            return None;
        }
        let (formatted, behind) = table.split_at(length);
        // The strings end with two zero bytes, also when there is no string.
        let end = behind.windows(2).position(|pair| pair == [0, 0])?;
        let structure = Structure { kind, formatted, strings: &behind[..end] };
        Some((structure, &behind[end + 2..]))
    }

    fn byte(&self, offset: usize) -> Option<u8> {
        self.formatted.get(offset).copied()
    }

    fn word(&self, offset: usize) -> Option<u16> {
        let bytes = self.formatted.get(offset..offset + 2)?;
        Some(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn double_word(&self, offset: usize) -> Option<u32> {
        Some(u32::from(self.word(offset)?) | u32::from(self.word(offset + 2)?) << 16)
    }

    /// The string whose number stands at this offset; numbers start at 1, and 0 is "no string".
    fn string(&self, offset: usize) -> String {
        let number = self.byte(offset).map_or(0, usize::from);
        let bytes = number.checked_sub(1).and_then(|position| self.strings.split(|byte| *byte == 0).nth(position));
        String::from_utf8_lossy(bytes.unwrap_or_default()).trim().to_owned()
    }
}

fn module(structure: &Structure<'_>) -> Option<Module> {
    /// ROM, flash, EEPROM, FEPROM and EPROM: chips with the firmware, which some makers also list.
    const FIRMWARE: std::ops::RangeInclusive<u8> = 0x08..=0x0c;
    if structure.byte(KIND).is_some_and(|kind| FIRMWARE.contains(&kind)) {
        return None;
    }
    // 0 and 65535 stand for "unknown" in the two speeds, and then 32-bit fields at the end may hold them.
    let speed = |short: usize, long: usize| match structure.word(short) {
        Some(0xffff) => structure.double_word(long).map(|speed| speed & 0x7fff_ffff).filter(|speed| *speed > 0),
        speed => speed.map(u32::from).filter(|speed| *speed > 0),
    };
    Some(Module {
        size_bytes: size_bytes(structure)?,
        kind: structure.byte(KIND).and_then(kind_name).map(str::to_owned),
        data_bits: structure.word(0x0a).filter(|bits| (1..=256).contains(bits)).map(u32::from),
        transfers_per_second: speed(0x20, 0x58).or_else(|| speed(0x15, 0x54)).map(|speed| u64::from(speed) * 1_000_000),
        slot: structure.string(SLOT),
        bank: structure.string(BANK),
        product: format!("{} {}", structure.string(0x17), structure.string(0x1a)).trim().to_owned(),
    })
}

fn size_bytes(structure: &Structure<'_>) -> Option<u64> {
    match structure.word(0x0c)? {
        // Empty slot; size not known.
        0 | 0xffff => None,
        // 32 GiB and more: the size in MiB stands in the extended field.
        0x7fff => structure.double_word(0x1c).map(|size| u64::from(size & 0x7fff_ffff) << 20).filter(|size| *size > 0),
        size if size & 0x8000 != 0 => Some(u64::from(size & 0x7fff) << 10).filter(|size| *size > 0),
        size => Some(u64::from(size) << 20),
    }
}

/// Table 78 of DSP0134.
fn kind_name(code: u8) -> Option<&'static str> {
    let name = match code {
        0x07 => "RAM",
        0x0f => "SDRAM",
        0x12 => "DDR",
        0x13 => "DDR2",
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        0x24 => "HBM3",
        _ => return None,
    };
    Some(name)
}

/// How many channels the modules are on, by the names of slots and banks. `None` where a module names no channel, or where the names
/// put more slots on one channel than any board has. Makers agree on nothing, so that is the usual answer on other boards.
pub(super) fn channels(table: &[u8]) -> Option<u32> {
    /// Registered DDR3 had up to three slots on a channel, and later kinds have two. Letters with more are sockets: `DIMM_A9`.
    const MOST_ON_ONE: usize = 3;
    let devices = devices(table);
    let slots: Vec<Slot> =
        devices.iter().map(|device| Slot { name: device.string(SLOT), bank: device.string(BANK) }).collect();
    let named: Vec<Option<String>> = slots.iter().map(|slot| channel(slot, &slots)).collect();
    let plugged = devices.iter().zip(&named).filter(|(device, _)| module(device).is_some());
    let distinct: BTreeSet<&String> = plugged.map(|(_, name)| name.as_ref()).collect::<Option<_>>()?;
    let on_one = |one: &String| named.iter().flatten().filter(|name| *name == one).count();
    let crowded = distinct.iter().any(|one| on_one(one) > MOST_ON_ONE);
    (!crowded && !distinct.is_empty()).then_some(distinct.len() as u32)
}

/// A slot for a module, by its names.
struct Slot {
    name: String,
    bank: String,
}

/// The channel that the names of bank and slot give. Slots of two sockets can have one name, and then the bank makes the difference.
fn channel(slot: &Slot, all: &[Slot]) -> Option<String> {
    channel_in(&slot.bank).or_else(|| {
        let repeated = all.iter().filter(|other| other.name == slot.name).count() > 1;
        let bank = if repeated { slot.bank.as_str() } else { "" };
        channel_in(&slot.name).map(|name| format!("{bank}{name}"))
    })
}

/// The name up to the whole number or letter of the channel, because sockets and controllers each have a channel A
/// (`Controller1-ChannelA-DIMM0`, `P0 CHANNEL B`, `MC 3 Chan 11`, `CPU1_DIMM_C2`).
fn channel_in(name: &str) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    let behind = |marker: &str, designator: fn(&str) -> Option<usize>| {
        upper.match_indices(marker).find_map(|(at, _)| {
            let rest = upper[at + marker.len()..].trim_start_matches([' ', '_', '-', '#', ':', '.']);
            designator(rest).map(|length| upper[..upper.len() - rest.len() + length].to_owned())
        })
    };
    behind("CHANNEL", number_or_letter)
        .or_else(|| behind("CHAN", number_or_letter))
        .or_else(|| behind("DIMM", letter_before_number))
}

/// Length of a number, or of a letter that begins no word.
fn number_or_letter(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let letters = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    Some(digits.max(letters)).filter(|_| digits > 0 || letters == 1)
}

/// Length of a letter in front of the number of the slot: `A` of `DIMM_A12`. A socket can stand before it: `P0_A` of `DIMM_P0_A1`.
fn letter_before_number(text: &str) -> Option<usize> {
    let number = |text: &str| {
        let begins = text.starts_with(|letter: char| letter.is_ascii_alphabetic());
        let digits = text.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        (begins && digits > 0).then_some(1 + digits)
    };
    let first = number(text)?;
    let behind = text[first..].strip_prefix(['_', '-']).filter(|behind| number(behind).is_some());
    Some(behind.map_or(1, |_| first + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A memory device of `length` bytes, a slot and a bank name.
    fn device(size: u16, extended: u32, speed: u16, names: [&str; 2]) -> Vec<u8> {
        let mut bytes = vec![0; 0x5c];
        bytes[..2].copy_from_slice(&[17, 0x5c]);
        bytes[0x0a..0x0c].copy_from_slice(&64u16.to_le_bytes());
        bytes[0x0c..0x0e].copy_from_slice(&size.to_le_bytes());
        bytes[0x10..0x13].copy_from_slice(&[1, 2, 0x1a]);
        bytes[0x15..0x17].copy_from_slice(&speed.to_le_bytes());
        bytes[0x1c..0x20].copy_from_slice(&extended.to_le_bytes());
        for name in names {
            bytes.extend(name.bytes().chain([0]));
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn modules_are_read_and_empty_slots_are_not() {
        let mut table = vec![0u8, 4, 0, 0, 0, 0];
        table.extend(device(16384, 0, 3200, ["ChannelA-DIMM0", "BANK 0"]));
        table.extend(device(0, 0, 0, ["ChannelB-DIMM0", "BANK 1"]));
        table.extend(device(0x7fff, 65536, 2933, ["DIMM_B1", "P0 CHANNEL B"]));
        table.extend([127, 4, 0, 0, 0, 0]);
        let found = modules(&table);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].size_bytes, found[1].size_bytes), (16 << 30, 64 << 30));
        assert_eq!(found[0].transfers_per_second, Some(3_200_000_000));
        assert_eq!(found[0].kind.as_deref(), Some("DDR4"));
        assert_eq!(found[1].slot, "DIMM_B1");
        assert_eq!(channels(&table), Some(2));
    }

    #[test]
    fn names_that_tell_no_channel_are_not_guessed() {
        for name in ["DIMM 0", "BANK 3", "Slot1", "DIMMs", "DIMM_AB1", "System Board Memory", ""] {
            assert_eq!(channel_in(name), None, "{name}");
        }
        for (name, channel) in [
            ("CPU1_DIMM_C2", "CPU1_DIMM_C"),
            ("P1-DIMMA1", "P1-DIMMA"),
            ("Controller0-ChannelA-DIMM0", "CONTROLLER0-CHANNELA"),
            ("Controller1-ChannelA-DIMM0", "CONTROLLER1-CHANNELA"),
            ("_Node1_Channel2_Dimm0", "_NODE1_CHANNEL2"),
            ("P0_Node0_Channel11_Dimm0", "P0_NODE0_CHANNEL11"),
            ("P1 CHANNEL K", "P1 CHANNEL K"),
            ("P1_DIMM_A12", "P1_DIMM_A"),
            ("DIMM_L1", "DIMM_L"),
            ("DIMM_P0_A1", "DIMM_P0_A"),
            ("DIMM_P1-H10", "DIMM_P1-H"),
            ("DIMM_A1_1", "DIMM_A"),
            ("MC 3 Chan 1", "MC 3 CHAN 1"),
            ("CPU 1 Channel-10 DIMM 0", "CPU 1 CHANNEL-10"),
        ] {
            assert_eq!(channel_in(name).as_deref(), Some(channel), "{name}");
        }
    }

    #[test]
    fn channels_are_counted_by_their_whole_names() {
        let count = |names: &[(String, String)]| {
            let tables = names.iter().map(|(slot, bank)| device(0x7fff, 65536, 4800, [slot.as_str(), bank.as_str()]));
            channels(&tables.collect::<Vec<_>>().concat())
        };
        let of = |count: usize, name: &dyn Fn(usize) -> (String, String)| (0..count).map(name).collect::<Vec<_>>();
        let text = str::to_owned;
        let numbered = of(12, &|at| (text("DIMM 0"), format!("P0_Node0_Channel{at}_Dimm0")));
        assert_eq!(count(&numbered), Some(12));
        let crowded = of(32, &|at| (format!("P{}_DIMM_{}{}", at / 16, ['A', 'L'][at % 2], at % 16), text("BANK")));
        assert_eq!(count(&crowded), None, "eight modules on a channel");
        let two_on_each = of(4, &|at| (format!("DIMM_{}{}", ['A', 'L'][at / 2], at % 2 + 1), format!("BANK {at}")));
        assert_eq!(count(&two_on_each), Some(2));
        let two_sockets = of(4, &|at| (format!("DIMM_{}1", ['A', 'B'][at % 2]), format!("NODE {}", at / 2)));
        assert_eq!(count(&two_sockets), Some(4), "the bank names the socket");
        assert_eq!(count(&of(12, &|at| (format!("DIMM_A{at}"), text("BANK")))), None, "the letter is the socket");
        let of_sockets = of(4, &|at| (format!("DIMM_P{}_{}0", at / 2, ['A', 'B'][at % 2]), text("BANK 0")));
        assert_eq!(count(&of_sockets), Some(4), "the socket stands before the letter");
        assert_eq!(count(&[]), None);
    }

    #[test]
    fn empty_slots_show_what_a_letter_means() {
        let table = |slots: u16, plugged: u16| -> Vec<u8> {
            let slots = ["A", "B"].into_iter().flat_map(|letter| (1..=slots).map(move |slot| (letter, slot)));
            let size = |slot: u16| if slot <= plugged { 16384 } else { 0 };
            let one = |(letter, slot): (&str, u16)| device(size(slot), 0, 1333, [&format!("DIMM_{letter}{slot}"), "-"]);
            slots.flat_map(one).collect()
        };
        assert_eq!(channels(&table(2, 1)), Some(2), "two slots on each channel");
        assert_eq!(channels(&table(9, 3)), None, "two sockets with nine slots each");
    }

    #[test]
    fn chips_of_the_firmware_are_no_modules() {
        let mut table = device(16384, 0, 3200, ["ChannelA-DIMM0", "BANK 0"]);
        let mut flash = device(16, 0, 0, ["SYSTEM ROM", "-"]);
        flash[KIND] = 0x09;
        table.extend(flash);
        assert_eq!((modules(&table).len(), channels(&table)), (1, Some(1)));
    }

    proptest! {
        #[test]
        fn no_table_makes_it_panic(table in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = modules(&table);
        }

        #[test]
        fn a_cut_table_gives_no_more_modules(cut in 0usize..220) {
            let table = [device(8192, 0, 3200, ["A", "B"]), device(8192, 0, 3200, ["C", "D"])].concat();
            prop_assert!(modules(&table[..cut.min(table.len())]).len() <= 2);
        }
    }
}
