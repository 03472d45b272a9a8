//! The description of the interface in OpenRPC, the answer to `rpc.discover`.

use super::{Kind, METHODS, Method, Need, Param};
use crate::json::Json;

/// The document; `version` is the program's.
pub fn openrpc(version: &str) -> Json {
    let methods = METHODS.iter().filter(|method| method.is_present());
    Json::object([
        ("openrpc", "1.3.2".into()),
        ("info", Json::object([("title", "godwit JSON-RPC".into()), ("version", version.into())])),
        ("methods", methods.map(method).collect()),
    ])
}

fn method(method: &Method) -> Json {
    Json::object([
        ("name", method.name.into()),
        ("summary", method.summary.into()),
        ("tags", Json::List(vec![Json::object([("name", method.category.name().into())])])),
        ("paramStructure", "either".into()),
        ("params", method.params.iter().map(param).collect()),
        ("result", Json::object([("name", "result".into()), ("schema", Json::Object(Vec::new()))])),
    ])
}

fn param(param: &Param) -> Json {
    let mut schema = Json::Object(Vec::new());
    match param.kind {
        Kind::Text | Kind::Hex => schema.push("type", "string"),
        Kind::Number => schema.push("type", "number"),
        Kind::Bool => schema.push("type", "boolean"),
        Kind::List => schema.push("type", "array"),
        Kind::Object | Kind::Options(_) => schema.push("type", "object"),
        Kind::NumberOrText => schema.push("type", Json::from(vec!["number", "string"])),
        Kind::Any | Kind::TextOrAny => {}
    }
    let mut json = Json::object([("name", param.name().into())]);
    let mut help = param.help.to_owned();
    if let Need::Default(default) = param.need {
        help.push_str(&format!(" Default: {default}."));
    }
    json.push("description", help);
    json.push("required", !param.is_optional());
    json.push("schema", schema);
    json
}
