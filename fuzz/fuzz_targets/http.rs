#![no_main]
#![doc = "See the module of this name in the library."]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (godwit_fuzz::HTTP.check)(data));
