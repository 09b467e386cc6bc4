//! Tokenizers from both file formats, text streams and chat templates.

use std::fs;
use std::path::Path;

use mlx_model::gguf::Header;
use mlx_model::{ChatTemplate, Message, ModelError, Role, TextStream, Tokenizer};
use serde_json::json;

use crate::gguf_bytes::GgufBytes;

const MERGES: [&str; 5] = ["h e", "l l", "he ll", "hell o", "Ġ w"];
const SPECIAL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const TEMPLATE: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m['content'].strip() + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// GPT-2's printable character for each byte.
fn byte_letters() -> Vec<String> {
    let printable = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut spare = 256..;
    (0..256)
        .map(|byte| {
            if printable(byte) {
                byte
            } else {
                spare.next().unwrap()
            }
        })
        .map(|code| char::from_u32(code).unwrap().to_string())
        .collect()
}

/// Bytes, then merged tokens, then special tokens.
fn tokens() -> Vec<String> {
    let merged = MERGES.iter().map(|merge| merge.replace(' ', ""));
    byte_letters()
        .into_iter()
        .chain(merged)
        .chain(SPECIAL.map(str::to_owned))
        .collect()
}

fn gguf(pre: &str, edit: impl FnOnce(&mut GgufBytes)) -> mlx_model::Result<Tokenizer> {
    let mut file = GgufBytes::new();
    file.text("tokenizer.ggml.model", "gpt2");
    file.text("tokenizer.ggml.pre", pre);
    let tokens = tokens();
    file.texts("tokenizer.ggml.tokens", &tokens);
    file.texts("tokenizer.ggml.merges", &MERGES.map(str::to_owned));
    let special = tokens.len() - SPECIAL.len();
    let kinds: Vec<i32> = (0..tokens.len())
        .map(|id| if id < special { 1 } else { 3 })
        .collect();
    file.i32s("tokenizer.ggml.token_type", &kinds);
    file.u32("tokenizer.ggml.bos_token_id", special as u32);
    file.u32("tokenizer.ggml.eos_token_id", special as u32 + 2);
    file.text("tokenizer.chat_template", TEMPLATE);
    edit(&mut file);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.gguf");
    fs::write(&path, file.finish()).unwrap();
    Tokenizer::from_gguf(&Header::read(&path)?)
}

fn plain(pre: &str) -> Tokenizer {
    gguf(pre, |_| {}).unwrap()
}

/// The same tokenizer as a Hugging Face folder.
fn write_folder(folder: &Path) {
    let tokens = tokens();
    let special = tokens.len() - SPECIAL.len();
    let vocabulary: serde_json::Map<_, _> = tokens[..special]
        .iter()
        .zip(0..)
        .map(|(token, id)| (token.clone(), json!(id)))
        .collect();
    let added: Vec<_> = SPECIAL
        .iter()
        .zip(special..)
        .map(|(token, id)| {
            json!({"id": id, "content": token, "single_word": false, "lstrip": false,
                   "rstrip": false, "normalized": false, "special": true})
        })
        .collect();
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                       "use_regex": true});
    let document = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": MERGES},
    });
    fs::write(folder.join("tokenizer.json"), document.to_string()).unwrap();
    let config = json!({
        "eos_token": {"content": "<|im_end|>"}, "bos_token": "<|endoftext|>",
        "chat_template": [{"name": "tools", "template": "no"},
                          {"name": "default", "template": TEMPLATE}],
    });
    fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
}

#[test]
fn texts_survive_the_round_trip() {
    for pre in ["gpt-2", "smollm", "llama-bpe", "qwen2"] {
        let tokenizer = plain(pre);
        assert_eq!(tokenizer.vocabulary(), tokens().len());
        for text in [
            "",
            "hello world",
            "  two  spaces\n\n\tx 12345 don't",
            "naïve 漢字 🦀 e\u{301}",
        ] {
            let tokens = tokenizer.encode(text).unwrap();
            // Qwen2 composes characters.
            let expected = if pre == "qwen2" {
                text.replace("e\u{301}", "é")
            } else {
                text.into()
            };
            assert_eq!(tokenizer.decode(&tokens).unwrap(), expected, "{pre}");
        }
    }
}

#[test]
fn merges_apply_within_words() {
    // The merged tokens follow the 256 bytes: he, ll, hell, hello, Ġw.
    let letter = |c: char| c as u32;
    let tokens = plain("gpt-2").encode("hello world").unwrap();
    assert_eq!(
        tokens,
        [259, 260, letter('o'), letter('r'), letter('l'), letter('d')]
    );
}

#[test]
fn gguf_and_folder_give_the_same_tokens() {
    let folder = tempfile::tempdir().unwrap();
    write_folder(folder.path());
    let (theirs, ours) = (Tokenizer::load(folder.path()).unwrap(), plain("gpt-2"));
    let text = "hello <|im_end|> hell we'll 42";
    assert_eq!(theirs.encode(text).unwrap(), ours.encode(text).unwrap());
    assert_eq!(theirs.stop_tokens(), ours.stop_tokens());
    let messages = [Message::user(" hi ")];
    assert_eq!(
        theirs.encode_chat(&messages).unwrap(),
        ours.encode_chat(&messages).unwrap()
    );

    // A template in a file of its own goes first.
    fs::write(
        folder.path().join("chat_template.jinja"),
        "{{ bos_token }}!",
    )
    .unwrap();
    let tokens = Tokenizer::load(folder.path())
        .unwrap()
        .encode_chat(&messages)
        .unwrap();
    assert_eq!(ours.decode_all(&tokens).unwrap(), "<|endoftext|>!");
}

#[test]
fn special_tokens_are_single_and_can_be_hidden() {
    let tokenizer = plain("smollm");
    let tokens = tokenizer.encode("<|im_start|>he<|im_end|>").unwrap();
    assert_eq!(tokens, [262, 256, 263]);
    assert_eq!(tokenizer.decode(&tokens).unwrap(), "he");
    assert_eq!(
        tokenizer.decode_all(&tokens).unwrap(),
        "<|im_start|>he<|im_end|>"
    );
    assert_eq!(tokenizer.stop_tokens(), [261, 263]);
}

#[test]
fn the_begin_token_is_added_where_asked_for() {
    let with = gguf("gpt-2", |file| {
        file.bool("tokenizer.ggml.add_bos_token", true);
    })
    .unwrap();
    assert_eq!(with.encode("he").unwrap(), [261, 256]);
    assert_eq!(with.encode_plain("he").unwrap(), [256]);
    assert_eq!(with.prefix().unwrap(), [261]);
    let without = gguf("gpt-2", |file| {
        file.bool("tokenizer.ggml.add_bos_token", false);
    })
    .unwrap();
    assert_eq!(without.encode("he").unwrap(), [256]);
    assert!(without.prefix().unwrap().is_empty());
}

#[test]
fn streams_give_whole_characters() {
    let tokenizer = plain("gpt-2");
    let text = "né 漢 🦀!";
    let mut stream = TextStream::new(&tokenizer);
    let mut pieces: Vec<String> = tokenizer
        .encode(text)
        .unwrap()
        .iter()
        .map(|&id| stream.push(id).unwrap())
        .collect();
    pieces.push(stream.finish().unwrap());
    assert!(
        pieces.iter().all(|piece| !piece.contains('\u{fffd}')),
        "{pieces:?}"
    );
    assert!(
        pieces.iter().filter(|piece| piece.is_empty()).count() >= 5,
        "{pieces:?}"
    );
    assert_eq!(pieces.concat(), text);

    // The first byte of a crab, and nothing more.
    let mut stream = TextStream::new(&tokenizer);
    assert_eq!(stream.push(0xf0).unwrap(), "");
    assert_eq!(stream.finish().unwrap(), "\u{fffd}");
    // Bytes that never become a character do not hold up what follows.
    let mut stream = TextStream::new(&tokenizer);
    let mut text = String::new();
    for token in [0x80, 0x80, 0x80, 0x80, 0x80, 104, 105] {
        text += &stream.push(token).unwrap();
    }
    assert!(text.ends_with("hi"), "{text:?}");
}

#[test]
fn templates_render_conversations() {
    let template = ChatTemplate::new(TEMPLATE, None, None).unwrap();
    let messages = [
        Message {
            role: Role::System,
            content: "Be brief.".to_owned(),
        },
        Message::user("  Hi?\n"),
        Message {
            role: Role::Assistant,
            content: "Hi.".to_owned(),
        },
    ];
    assert_eq!(
        template.render(&messages).unwrap(),
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi?<|im_end|>\n\
         <|im_start|>assistant\nHi.<|im_end|>\n<|im_start|>assistant\n"
    );
}

#[test]
fn templates_may_refuse() {
    let source =
        "{% if messages[0].role != 'system' %}{{ raise_exception('system first') }}{% endif %}";
    let error = ChatTemplate::new(source, None, None)
        .unwrap()
        .render(&[Message::user("x")]);
    assert!(error.unwrap_err().to_string().contains("system first"));
    let error = ChatTemplate::new("{% for %}", None, None).unwrap_err();
    assert!(matches!(error, ModelError::ChatTemplate(_)));
}

#[test]
fn unusable_tokenizers_are_refused() {
    let text = |result: mlx_model::Result<Tokenizer>| result.err().unwrap().to_string();
    let error = text(gguf("chatglm", |_| {}));
    assert!(
        error.contains("`chatglm`") && error.contains("smollm"),
        "{error}"
    );
    let error = text(gguf("gpt-2", |file| {
        file.text("tokenizer.ggml.model", "llama");
    }));
    assert!(
        error.contains("`llama`") && error.contains("gpt2"),
        "{error}"
    );
    let error = text(gguf("gpt-2", |file| {
        file.texts("tokenizer.ggml.merges", &["nospace".to_owned()]);
    }));
    assert!(error.contains("`nospace`"), "{error}");
    let error = text(gguf("gpt-2", |file| {
        file.texts("tokenizer.ggml.merges", &["un known".to_owned()]);
    }));
    assert!(error.contains("tokenizer"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    assert!(text(Tokenizer::load(folder.path())).contains("tokenizer.json"));
    fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    assert!(text(Tokenizer::load(folder.path())).contains("tokenizer.json"));
    write_folder(folder.path());
    fs::remove_file(folder.path().join("tokenizer_config.json")).unwrap();
    let error = Tokenizer::load(folder.path())
        .unwrap()
        .encode_chat(&[Message::user("x")]);
    assert!(matches!(error, Err(ModelError::NoChatTemplate)));
}
