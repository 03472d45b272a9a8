use super::*;

#[test]
fn rows_are_in_order_and_unique() {
    let keys: Vec<_> = METHODS.iter().map(|method| (method.category, method.name)).collect();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!(keys, sorted);
    let mut names: Vec<_> = METHODS.iter().map(|method| method.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), METHODS.len());
}

#[test]
fn help_names_each_method_that_is_present() {
    let list = help::list_help();
    assert!(list.contains("getblock \"blockhash\" ( verbosity )\n"), "{list}");
    assert!(list.contains("== Util =="));
    assert!(!list.contains("invalidateblock") && !list.contains("signrawtransactionwithkey"));
    for method in METHODS.iter().filter(|method| method.is_present()) {
        assert!(!method.summary.is_empty() && help::help_of(method).starts_with(method.name));
    }
}

/// As Core writes it.
#[test]
fn a_default_without_characters_is_seen() {
    let method = METHODS.iter().find(|method| method.name == "dumptxoutset").expect("it is there");
    let help = help::help_of(method);
    assert!(help.contains("(string, optional, default=\"\") latest, or rollback"), "{help}");
}

#[test]
fn the_page_in_the_documentation_is_that_of_the_table() {
    // Where cargo runs a test, and not where the compiler was told that the crate is: the same target
    // directory serves other checkouts, which may be gone by now.
    let text = std::fs::read_to_string("../../docs/rpc.md").expect("the page is there");
    let (_, rest) = text.split_once("<!-- methods: begin -->\n").expect("the list begins");
    let (list, _) = rest.split_once("<!-- methods: end -->").expect("the list ends");
    assert_eq!(list, page::page(), "replace the list in docs/rpc.md by this");
}
