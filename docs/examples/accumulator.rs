//! The field guide's accumulator, a map of strings, as a target: no dependency, so it brings its own small JSON reader.
//!
//! rustc -O docs/examples/accumulator.rs -o /tmp/accumulator
//! harness check --jsonl --claims docs/examples/rust.yaml -- /tmp/accumulator --jsonl

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::exit;

#[derive(Default)]
struct Call {
    id: String,
    name: String,
    pieces: Vec<String>,
}

#[derive(Default)]
struct Accumulator {
    rest: Vec<u8>, // bytes of the unfinished line
    data: String,
    text: String,
    calls: BTreeMap<i64, Call>, // by index, so in its order
    finished: bool,
    done: bool,
}

impl Accumulator {
    fn feed(&mut self, piece: &[u8]) -> Result<(), String> {
        for &byte in piece {
            if byte != b'\n' {
                self.rest.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned();
            self.line(line.strip_suffix('\r').unwrap_or(&line))?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(value) = line.strip_prefix("data:") {
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
        } else if line.is_empty() && !self.data.is_empty() {
            let data = std::mem::take(&mut self.data);
            self.event(&data)?;
        }
        Ok(())
    }

    fn event(&mut self, data: &str) -> Result<(), String> {
        if self.done || data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let Some(chunk) = json::read(data) else { return Ok(()) };
        if let Some(error) = chunk.get("error") {
            return Err(format!("the server failed: {}", error.get("message").map_or("", json::Value::text)));
        }
        for choice in chunk.get("choices").map_or(&[][..], json::Value::items) {
            if choice.get("index").map_or(0, json::Value::integer) != 0 {
                continue;
            }
            self.finished |= choice.get("finish_reason").is_some_and(|reason| !reason.text().is_empty());
            let Some(delta) = choice.get("delta") else { continue };
            self.text += delta.get("content").map_or("", json::Value::text);
            for fragment in delta.get("tool_calls").map_or(&[][..], json::Value::items) {
                let call = self.calls.entry(fragment.get("index").map_or(0, json::Value::integer)).or_default();
                let function = fragment.get("function");
                let member = |name| function.and_then(|body| body.get(name)).map_or("", json::Value::text);
                // Set once, and only from a value that is not empty: Some("") would wipe out what was there.
                set_once(&mut call.id, fragment.get("id").map_or("", json::Value::text));
                set_once(&mut call.name, member("name"));
                call.pieces.push(member("arguments").to_string());
            }
        }
        Ok(())
    }

    /// The assistant message as JSON.
    fn message(&self) -> Result<String, String> {
        if !self.done && !self.finished {
            return Err("the stream ended before the answer did".into());
        }
        let calls: Vec<String> = self.calls.values().map(|call| {
            let (id, name) = (json::quoted(&call.id), json::quoted(&call.name));
            let arguments = json::quoted(&call.pieces.concat());
            format!(r#"{{"id":{id},"type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#)
        }).collect();
        let content = if self.text.is_empty() && !calls.is_empty() { "null".into() } else { json::quoted(&self.text) };
        Ok(format!(r#"{{"role":"assistant","content":{content},"tool_calls":[{}]}}"#, calls.join(",")))
    }
}

fn set_once(field: &mut String, value: &str) {
    if field.is_empty() {
        field.push_str(value);
    }
}

fn run(input: &[u8], lines: bool) -> Result<String, String> {
    let mut accumulator = Accumulator::default();
    if lines {
        for line in input.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            accumulator.feed(&base64(&line[1..line.len() - 1]))?; // a JSON string: without its quotes
        }
    } else {
        accumulator.feed(input)?;
    }
    accumulator.message()
}

fn base64(text: &[u8]) -> Vec<u8> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for &letter in text {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break, // padding
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

fn main() {
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).expect("stdin can be read");
    match run(&input, std::env::args().any(|argument| argument == "--jsonl")) {
        Ok(message) => writeln!(std::io::stdout(), "{message}").expect("stdout can be written"),
        Err(reason) => {
            eprintln!("{reason}");
            exit(1); // rejected
        }
    }
}

/// Enough JSON for this example; use a library for yours.
mod json {
    pub enum Value {
        Text(String),
        Number(f64),
        List(Vec<Value>),
        Object(Vec<(String, Value)>),
        Other, // true, false
    }

    impl Value {
        /// The member of that name; null counts as absent.
        pub fn get(&self, name: &str) -> Option<&Value> {
            let Value::Object(members) = self else { return None };
            members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
        }
        pub fn text(&self) -> &str {
            if let Value::Text(text) = self { text } else { "" }
        }
        pub fn integer(&self) -> i64 {
            if let Value::Number(number) = self { *number as i64 } else { 0 }
        }
        pub fn items(&self) -> &[Value] {
            if let Value::List(items) = self { items } else { &[] }
        }
    }

    pub fn read(text: &str) -> Option<Value> {
        let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
        let value = reader.value()?;
        (reader.peek().is_none()).then_some(value?)
    }

    struct Reader<'a> {
        bytes: &'a [u8],
        at: usize,
    }

    impl Reader<'_> {
        /// The next byte that is no white space.
        fn peek(&mut self) -> Option<u8> {
            while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
                self.at += 1;
            }
            self.bytes.get(self.at).copied()
        }

        fn take(&mut self, byte: u8) -> Option<()> {
            (self.peek()? == byte).then(|| self.at += 1)
        }

        /// None: no JSON. Some(None): null.
        fn value(&mut self) -> Option<Option<Value>> {
            Some(Some(match self.peek()? {
                b'"' => Value::Text(self.string()?),
                b'{' => Value::Object(self.listed(b'}', |reader| {
                    reader.peek()?;
                    let name = reader.string()?;
                    reader.take(b':')?;
                    Some(reader.value()?.map(|value| (name, value)))
                })?),
                b'[' => Value::List(self.listed(b']', |reader| reader.value())?),
                _ => {
                    let start = self.at;
                    while self.bytes.get(self.at).is_some_and(|byte| !b",]} \t\r\n".contains(byte)) {
                        self.at += 1;
                    }
                    match std::str::from_utf8(&self.bytes[start..self.at]).ok()? {
                        "null" => return Some(None),
                        "true" | "false" => Value::Other,
                        number => Value::Number(number.parse().ok()?),
                    }
                }
            }))
        }

        /// What stands between brackets, nulls left out.
        fn listed<T>(&mut self, close: u8, item: impl Fn(&mut Self) -> Option<Option<T>>) -> Option<Vec<T>> {
            self.at += 1;
            let mut items = Vec::new();
            if self.take(close).is_some() {
                return Some(items);
            }
            loop {
                items.extend(item(self)?);
                if self.take(close).is_some() {
                    return Some(items);
                }
                self.take(b',')?;
            }
        }

        fn string(&mut self) -> Option<String> {
            let mut units: Vec<u16> = Vec::new(); // UTF-16, as in JSON: two escapes may make one character
            self.take(b'"')?;
            loop {
                let start = self.at;
                while !matches!(self.bytes.get(self.at)?, b'"' | b'\\') {
                    self.at += 1;
                }
                units.extend(std::str::from_utf8(&self.bytes[start..self.at]).ok()?.encode_utf16());
                self.at += 1;
                if self.bytes[self.at - 1] == b'"' {
                    return Some(String::from_utf16_lossy(&units));
                }
                let escape = *self.bytes.get(self.at)?;
                self.at += 1;
                units.push(match escape {
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => 10,
                    b'r' => 13,
                    b't' => 9,
                    b'u' => {
                        let digits = self.bytes.get(self.at..self.at + 4)?;
                        self.at += 4;
                        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
                    }
                    other => u16::from(other),
                });
            }
        }
    }

    pub fn quoted(text: &str) -> String {
        let mut out = String::from("\"");
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                control if control < ' ' => out.push_str(&format!("\\u{:04x}", control as u32)),
                other => out.push(other),
            }
        }
        out + "\""
    }
}
