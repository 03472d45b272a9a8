//! The two branches of an account in one descriptor (BIP389), the reverse of what a split makes of `<0;1>`.

use super::split::append_checksum;

/// Public descriptors, of which those that differ by `/0/*` and `/1/*` alone become one with `/<0;1>/*` at
/// the place of the first; with checksums.
pub fn multipath<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let body = |text: &'a str| text.split('#').next().expect("there is a first part");
    let mut bodies: Vec<&str> = texts.into_iter().map(body).collect();
    let mut joined = Vec::new();
    while !bodies.is_empty() {
        let first = bodies.remove(0);
        let of_branch = |step: &str| first.replace("/0/*", step).replace("/1/*", step);
        let (receive, change) = (of_branch("/0/*"), of_branch("/1/*"));
        // One of mixed branches is neither.
        let other = if first == receive { &change } else { &receive };
        let is_branch = receive != change && (first == receive || first == change);
        let mut text = match bodies.iter().position(|body| is_branch && body == other) {
            Some(place) => {
                bodies.remove(place);
                of_branch("/<0;1>/*")
            }
            None => first.to_owned(),
        };
        append_checksum(&mut text);
        joined.push(text);
    }
    joined
}
