// What is written to without being borrowed alone is not captured either, and what a closure is given to
// write into is a secret, or is called `Unprotected`.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::mpsc::Receiver;

use godwit_secret::{SecretArray, SecretBox, SecretBytes, SecretSlice, SecretStream, SecretString};

fn cell(secret: &SecretArray<8>, found: &Cell<u64>) {
    secret.expose_secret(|bytes| found.set(u64::from_le_bytes(*bytes)));
}

fn borrowed(secret: &SecretBytes, found: &RefCell<Vec<u8>>) {
    secret.expose_secret(|bytes| found.borrow_mut().extend_from_slice(bytes));
}

fn shared(secret: &SecretString, found: &Rc<RefCell<String>>) {
    secret.expose_secret(|text| found.borrow_mut().push_str(text));
}

fn once(secret: &SecretSlice<'_>, found: &OnceCell<Vec<u8>>) {
    secret.expose_secret(|bytes| {
        found.get_or_init(|| bytes.to_vec());
    });
}

fn pointer(secret: &SecretArray<32>, found: *mut [u8; 32]) {
    secret.expose_secret(|bytes| found.cast_const() == bytes);
}

fn closure(secret: &SecretBytes, found: &dyn Fn(&[u8])) {
    secret.expose_secret(|bytes| found(bytes));
}

fn receiver(secret: &SecretBytes, found: &Receiver<u8>) -> bool {
    secret.expose_secret(|bytes| bytes.first().copied() == found.recv().ok())
}

fn cell_while_it_changes(secret: &mut SecretStream, found: &RefCell<Vec<u8>>) {
    secret.expose_secret_mut(|bytes| found.borrow_mut().extend_from_slice(bytes));
}

fn cell_while_it_is_made(found: &Cell<u8>) {
    SecretArray::<32>::from_fn_in_place(|bytes| found.set(bytes[0])).unwrap();
}

fn given_a_vector(secret: &SecretBytes, found: &mut Vec<u8>) {
    secret.expose_secret_into(found, |bytes, found| found.extend_from_slice(bytes));
}

fn given_a_string(secret: &SecretString, found: &mut String) {
    secret.expose_secret_into(found, |text, found| found.push_str(text));
}

fn given_an_array(secret: &SecretArray<32>, found: &mut [u8; 32]) {
    secret.expose_secret_into(found, |bytes, found| *found = *bytes);
}

fn given_a_number(secret: &SecretSlice<'_>, found: &mut usize) {
    secret.expose_secret_into(found, |bytes, found| *found = bytes.len());
}

fn given_a_cell(secret: &SecretArray<32>, found: &Cell<u8>) {
    secret.expose_secret_into(found, |bytes, found| found.set(bytes[0]));
}

fn given_with_a_secret(secret: &SecretBytes, key: &mut SecretBytes, found: &mut Vec<u8>) {
    secret.expose_secret_into((key, found), |bytes, (_, found)| found.extend_from_slice(bytes));
}

fn given_a_writer(secret: &SecretBytes, out: &mut dyn std::io::Write) -> bool {
    secret.expose_secret_into(out, |bytes, out| out.write_all(bytes).is_ok())
}

fn given_while_it_changes(secret: &mut SecretBytes, found: &mut Vec<u8>) {
    secret.expose_secret_mut_into(found, |bytes, found| found.extend_from_slice(bytes));
}

fn given_while_a_value_changes(secret: &mut SecretBox<Vec<u8>>, found: &mut Vec<u8>) {
    secret.expose_secret_mut_into(found, std::mem::swap);
}

fn main() {}
