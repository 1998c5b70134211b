//! Numbers in words of other languages than English, and in Chinese, Japanese and Korean numerals.

use std::collections::HashMap;
use std::sync::LazyLock;

use dashu_ratio::RBig;

use super::answer::offset_in;
use super::numerals::{is_group, positional};
use super::scan::{before_end, is_digit, is_one_of};
use super::spelled::scale;
use super::units::is_unit;

/// Most numerals of a number.
const MAX_WORDS: usize = 16;

/// A number in Chinese numerals: `二十五`, `三分之二`, `负三`, `两百零五`.
pub(super) fn chinese(text: &str) -> Option<RBig> {
    if let Some(rest) = text.strip_prefix('负').or_else(|| text.strip_prefix('負')) {
        return chinese(rest).map(|value| -value);
    }
    if let Some((whole, part)) = text.split_once('又') {
        return Some(chinese(whole)? + chinese(part).filter(|part| !part.is_int())?);
    }
    if let Some((whole, part)) = text.split_once(['点', '點']) {
        let digits: Option<String> = part
            .chars()
            .map(|c| "零一二三四五六七八九".chars().position(|known| known == c))
            .map(|digit| Some(digit?.to_string()))
            .collect();
        let digits = digits.filter(|digits| (1..=MAX_WORDS).contains(&digits.len()))?;
        return Some(chinese(whole)? + positional(&format!("0.{digits}"), 10)?);
    }
    if let Some(above) = text.strip_prefix("百分之") {
        return chinese(above).map(|above| above / RBig::from(100));
    }
    if let Some((below, above)) = text.split_once("分之") {
        let (above, below) = (chinese(above)?, chinese(below)?);
        return (!below.is_zero()).then(|| above / below);
    }
    let (mut total, mut group, mut digit) = (0_u64, 0_u64, None);
    let mut last_scale = 0;
    (!text.is_empty() && text.chars().count() <= MAX_WORDS).then_some(())?;
    for c in text.chars() {
        if let Some(more) = c.to_digit(10) {
            digit = Some(digit.unwrap_or(0) * 10 + u64::from(more));
            continue;
        }
        if let Some(value) = "零一二三四五六七八九".chars().position(|known| known == c) {
            digit = Some(value as u64);
            continue;
        }
        let scale = "十百千万亿".chars().position(|known| known == c);
        match (c, scale) {
            ('〇', _) => digit = Some(0),
            ('两' | '兩', _) => digit = Some(2),
            (_, Some(0)) => group += digit.take().unwrap_or(1) * 10,
            (_, Some(power @ 1..=2)) => group += digit.take()? * 10_u64.pow(power as u32 + 1),
            ('万' | '萬' | '亿' | '億', _) => {
                let scale = if matches!(c, '万' | '萬') { 10_000 } else { 100_000_000 };
                let section = group + digit.take().unwrap_or(0);
                // Of `三亿四千万` the second part is added.
                total = match scale < last_scale {
                    true => total.checked_add(section.checked_mul(scale)?)?,
                    false => (total + section).checked_mul(scale)?,
                };
                (group, last_scale) = (0, scale);
            }
            _ => return None,
        }
    }
    Some(RBig::from(total.checked_add(group + digit.unwrap_or(0))?))
}

/// A number of digits and Chinese or Korean numerals, with what is counted behind it: 15000 of `1万5千円`, 1250000 of
/// `125만 원`, 15000 of `1.5万元`.
pub(super) fn with_numerals(text: &str) -> Option<RBig> {
    const NUMERALS: &str = "0123456789.零〇一二三四五六七八九十百千万萬亿億点點又分之";
    const KOREAN: [(char, char); 5] =
        [('만', '万'), ('억', '亿'), ('천', '千'), ('백', '百'), ('십', '十')];
    text.starts_with(is_digit).then_some(())?;
    let digits = text.find(|c: char| !c.is_ascii_digit() && !".,".contains(c))?;
    // Of `3千米` the sign of a thousand is of the unit.
    (!is_unit(text[digits..].trim())).then_some(())?;
    let plain = KOREAN
        .iter()
        .fold(text.replace(',', ""), |text, (from, to)| text.replace(*from, &to.to_string()));
    let text = plain.replacen(" 万", "万", 1).replacen(" 亿", "亿", 1);
    let text = text.replace("亿 ", "亿").replace("万 ", "万");
    let text = text.trim();
    let end = text.find(|c| !NUMERALS.contains(c)).unwrap_or(text.len());
    let (number, things) = text.split_at(end);
    let things = things.trim_start();
    let is_thing = |c: char| c.is_alphabetic() && !c.is_ascii();
    let is_mixed =
        !number.is_ascii() && things.chars().count() <= 6 && things.chars().all(is_thing);
    is_mixed.then_some(())?;
    match number.split_once('.') {
        None => chinese(number),
        // `1.25亿`
        Some((whole, rest)) => {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let number = positional(&format!("{whole}.{}", &rest[..end]), 10)?;
            Some(number * RBig::from(scale(&rest[end..])?))
        }
    }
}

/// Numbers to twenty and the tens from thirty on, of Spanish, German, French, Italian, Portuguese, Dutch, Russian,
/// Polish, Turkish.
const FOREIGN: [&str; 9] = [
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete \
    dieciocho diecinueve veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa cien",
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn \
    achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert",
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit \
    dix-neuf vingt trente quarante cinquante soixante soixante-dix quatre-vingt quatre-vingt-dix cent",
    "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici \
    diciassette diciotto diciannove venti trenta quaranta cinquanta sessanta settanta ottanta novanta cento",
    "zero um dois três quatro cinco seis sete oito nove dez onze doze treze quatorze quinze dezesseis dezessete \
    dezoito dezenove vinte trinta quarenta cinquenta sessenta setenta oitenta noventa cem",
    "nul een twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien zeventien \
    achttien negentien twintig dertig veertig vijftig zestig zeventig tachtig negentig honderd",
    "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать \
    пятнадцать шестнадцать семнадцать восемнадцать девятнадцать двадцать тридцать сорок пятьдесят шестьдесят \
    семьдесят восемьдесят девяносто сто",
    "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć jedenaście dwanaście trzynaście czternaście \
    piętnaście szesnaście siedemnaście osiemnaście dziewiętnaście dwadzieścia trzydzieści czterdzieści pięćdziesiąt \
    sześćdziesiąt siedemdziesiąt osiemdziesiąt dziewięćdziesiąt",
    "sıfır bir iki üç dört beş altı yedi sekiz dokuz on on_bir on_iki on_üç on_dört on_beş on_altı on_yedi on_sekiz \
    on_dokuz yirmi otuz kırk elli altmış yetmiş seksen doksan",
];

/// A number up to a hundred in words of another language than English: `treinta y cinco`, `fünfunddreißig`.
fn foreign(text: &str) -> Option<u32> {
    const MAX_BYTES: usize = 60;
    let text = text.strip_prefix("\\text{").and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let are_words = text.chars().all(|c| c.is_alphabetic() || matches!(c, ' ' | '-'));
    (text.len() <= MAX_BYTES && are_words).then_some(())?;
    let lower = text.to_lowercase();
    NUMBERS.iter().find_map(|numbers| foreign_in(&lower, numbers))
}

/// The numbers of [`FOREIGN`] by their words, and by forms of these within a word: `vent`, `trent`, `un`; `veinti`.
static NUMBERS: LazyLock<[HashMap<&str, u32>; FOREIGN.len()]> = LazyLock::new(|| {
    const FORMS: [(&str, &str); 5] = [
        ("veinti", "veinte"),
        ("ein", "eins"),
        ("vingts", "vingt"),
        ("две", "два"),
        ("duas", "dois"),
    ];
    FOREIGN.map(|table| {
        let mut numbers = HashMap::new();
        for end in ["", "i", "a", "o"] {
            for (at, word) in (0..).zip(table.split(' ')) {
                let value = if at <= 20 { at } else { (at - 18) * 10 };
                word.strip_suffix(end).map(|stem| numbers.entry(stem).or_insert(value));
            }
        }
        for (form, word) in FORMS {
            numbers.get(word).copied().map(|value| numbers.insert(form, value));
        }
        numbers
    })
});

/// The same, by the words of one language.
fn foreign_in(text: &str, numbers: &HashMap<&str, u32>) -> Option<u32> {
    let text = text.trim();
    let word = |word: &str| numbers.get(word).copied();
    let sum = |tens: &str, ones: &str| {
        let (tens, ones) = (word(tens)?, word(ones)?);
        (tens >= 20 && (1..20).contains(&ones)).then_some(tens + ones)
    };
    let ends = text.char_indices().map(|(at, _)| at).skip(1);
    word(text).or_else(|| {
        ends.map(|at| text.split_at(at)).find_map(|(a, b)| {
            let tens = before_end(a, " y| e| et|-et");
            let reversed = || {
                let links = ["und", "en", "ën"].iter();
                links.filter_map(|link| a.strip_suffix(link)).find_map(|ones| sum(b, ones))
            };
            sum(tens.unwrap_or(a), b.trim_start_matches([' ', '-'])).or_else(reversed)
        })
    })
}

/// Parts of one from halves to tenths in the languages of [`FOREIGN`]: one word for one of them, or several, with bars.
const FOREIGN_PARTS: [&str; 7] = [
    "medio,media,mitad tercio cuarto quinto sexto séptimo octavo noveno décimo",
    "halb,halbe,hälfte drittel viertel fünftel sechstel siebtel achtel neuntel zehntel",
    "demi,demie,moitié tiers quart cinquième sixième septième huitième neuvième dixième",
    "mezzo,mezza,metà terzo,terzi quarto,quarti quinto,quinti sesto,sesti settimo,settimi ottavo,ottavi nono,noni \
     decimo,decimi",
    "meio,meia,metade terço quarto quinto sexto sétimo oitavo nono décimo",
    "half,helft derde kwart,vierde vijfde zesde zevende achtste negende tiende",
    "вторая,вторых,половина треть,третья,трети,третьих четверть,четвертая,четверти,четвёртых,четвертых пятая,пятых \
     шестая,шестых седьмая,седьмых восьмая,восьмых девятая,девятых десятая,десятых",
];

/// A part of one in words of another language than English: `2/3` of `zwei Drittel`, `deux tiers`, `две трети`.
fn foreign_part(text: &str) -> Option<String> {
    const MAX_BYTES: usize = 60;
    const ONE: &str = "un|una|une|ein|eine|einen|um|uma|een|één|одна|la|die|el|der|das|de";
    let may_be = text.len() <= MAX_BYTES && text.chars().all(|c| c.is_alphabetic() || c == ' ');
    may_be.then_some(())?;
    let lower = text.to_lowercase();
    // `zweieinhalb`
    if let Some(whole) =
        lower.strip_suffix("einhalb").and_then(|whole| foreign_in(whole, &NUMBERS[1]))
    {
        return Some(format!("{}/2", 2 * whole + 1));
    }
    if is_one_of(&lower, "anderthalb|anderhalf|полтора") {
        return Some("3/2".into());
    }
    let (above, below) = lower.rsplit_once(' ').unwrap_or(("", &lower));
    let (language, below) = FOREIGN_PARTS.iter().enumerate().find_map(|(language, table)| {
        let at = table.split_whitespace().position(|names| {
            names.split(',').any(|name| name == below || below.strip_suffix('s') == Some(name))
        })?;
        let is_spoken = above.is_empty()
            || is_one_of(above, ONE)
            || foreign_in(above, &NUMBERS[language]).is_some();
        is_spoken.then_some((language, at + 2))
    })?;
    let above = match above {
        // A third alone may be a rank.
        "" => (below == 2).then_some(1)?,
        word if is_one_of(word, ONE) => 1,
        words => foreign_in(words, &NUMBERS[language])?,
    };
    (above < 100).then(|| format!("{above}/{below}"))
}

/// The only number of a sentence in words of another language: `двенадцать`, `一百二十` of `相距一百二十千米`.
pub(super) fn foreign_number(sentence: &str) -> Option<&str> {
    const NUMERALS: &str = "零〇一二三四五六七八九十百千万亿两分之又点";
    let is_numeral = |c: char| NUMERALS.contains(c);
    let mut runs = sentence.split(|c| !is_numeral(c)).filter_map(|run| {
        let run = run.trim_matches(['分', '之', '又', '点']);
        let end = offset_in(sentence, run) + run.len();
        // Of `千米` and `千克` the first sign is of the unit.
        let is_unit = sentence[end..].starts_with(['米', '克', '瓦']);
        let run = if is_unit { run.strip_suffix('千').unwrap_or(run) } else { run };
        (run.chars().count() > 1 && chinese(run).is_some()).then_some(run)
    });
    let is_known = |word: &&str| {
        word.len() >= 4
            && !is_one_of(word, "once|cent|zero|sept")
            && foreign(word).is_some_and(|value| value > 1)
    };
    let words: Vec<&str> = sentence.split(|c: char| !c.is_alphabetic() && c != '-').collect();
    let mut numbers = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        // `vingt et un`
        let start = offset_in(sentence, word);
        let until = |last: usize| {
            let last = words.get(at + last)?;
            let run = &sentence[start..offset_in(sentence, last) + last.len()];
            foreign(run).is_some().then_some(run)
        };
        let longer = || (1..=2).rev().find_map(|more| Some((until(more)?, more)));
        let found = if is_known(word) { longer().or(Some((word, 0))) } else { None };
        numbers.extend(found.map(|(run, _)| run));
        at += 1 + found.map_or(0, |(_, more)| more);
    }
    let mut numbers = numbers.into_iter();
    let found = runs.next().or_else(|| numbers.next())?;
    (runs.next().is_none() && numbers.next().is_none()).then_some(found)
}

/// An answer as a number of another language than English: 16 of `seize`, 1250 of `1.250 Euro`. Words that are English
/// too, and points between thousands, are read so only in a text of such a language.
pub(super) fn in_other_language(answer: &str, completion: &str) -> Option<String> {
    const MAX_BYTES: usize = 80;
    const WORDS: &str = "der|das|und|ist|lautet|antwort|beträgt|insgesamt|el|los|las|es|respuesta|resposta|risposta|é|\
        è|il|che|são|het|een|antwoord|cevap|jawaban|adalah|ve|que|hay|y|en|un|una|une|die|den|mit|für|van|\
        met|di|del|um|uma|os";
    let answer = answer.trim_matches([' ', '$', '.']);
    if let Some(part) = foreign_part(answer) {
        return Some(part);
    }
    let number = foreign(answer);
    let groups = answer
        .split([' ', '\\'])
        .next()
        .filter(|number| is_group(number, '.') && !number.starts_with('0'));
    (answer.len() <= MAX_BYTES && (number.is_some() || groups.is_some())).then_some(())?;
    let words = completion
        .split(|c: char| !c.is_alphabetic())
        .filter(|word| is_one_of(&word.to_lowercase(), WORDS));
    let is_spoken = words.take(2).count() == 2;
    match number {
        Some(number) => {
            (is_spoken || !is_one_of(answer, "due|once|elf")).then(|| number.to_string())
        }
        None => is_spoken.then(|| answer.replacen('.', "", 1)),
    }
}
