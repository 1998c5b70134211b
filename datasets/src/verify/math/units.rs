//! Units of measure: which words are one unit, and how units of one kind convert.

use super::scan::{bare_words, each, holds, is_digit, is_one_of};
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use dashu_ratio::RBig;

/// Names of a unit, its quantity, the quantity's power, and the unit's size in base units as a fraction.
const UNITS: &str = "nm нм nanometer nanometre=length 1 1 1000000000|Å å ångström angstrom=length 1 1 10000000000|mm \
    мм millimeter millimetre millimètre milímetro millimetri milimetro миллиметр 毫米 ミリメートル 밀리미터=length 1 1 1000|cm \
    см centimeter centimetre centimètre centímetro centimetro zentimeter centimetri centymetr centymetrów santimetre \
    сантиметр 厘米 公分 センチメートル センチ 센티미터=length 1 1 100|dm дм decimeter decimetre дециметр 分米=length 1 1 10|m м метр \
    metro mètre meter metre metri metry metrów metros mét 米 公尺 メートル 미터=length 1 1 1|km км kilómetro kilomètre \
    chilometro chilometri quilômetro kilometrów kilometry kilometer kilometre километр 千米 公里 キロメートル キロ 킬로미터=length 1 \
    1000 1|in inch inche pulgada zoll дюйм 英寸=length 1 254 10000|ft foot feet pie 英尺=length 1 3048 10000|yd \
    yard=length 1 9144 10000|mi mile milla meile миля мил 英里=length 1 1609344 1000|ms millisecond=time 1 1 1000|s с \
    сек segundo seconde secondo secondi saniye detik giây sekund sekundy sekunde sekunden sec second секунд 秒 秒钟 \
    초=time 1 1 1|min мин minuto minuten minuut minute минут minuta minuti minutę dakika menit phút 分钟 分鐘 分 분=time 1 \
    60 1|h ч час hora ora ore heure stunde stunden uur uren godzina godziny godzin saat jam giờ hr hour 小时 小時 个小时 時間 \
    시간=time 1 3600 1|day сут день día jour tag tage tagen giorno giorni dia 天 日 日間 일 дней=time 1 86400 1|week semana \
    semaine woche wochen settimana недел 周 星期 週間 주=time 1 604800 1|month 个月=months 1 1 1|year yr 年=months 1 12 1|mg \
    milligram 毫克=mass 1 1 1000000|g г gram gramo gramme gramm grammo grammi gramów грамм 克 グラム 그램=mass 1 1 1000|kg \
    кг kilogram kilogramo kilogramme kilogramm chilogrammo chilogrammi kilogramów килограмм kilo 千克 公斤 キログラム \
    킬로그램=mass 1 1 1|斤=mass 1 1 2|lb pound=mass 1 45359237 100000000|oz ounce=mass 1 45359237 1600000000|ml мл \
    milliliter millilitre mililitro миллилитр 毫升 ミリリットル 밀리리터=length 3 1 1000000|cl centiliter centilitre=length 3 1 \
    100000|dl deciliter decilitre デシリットル=length 3 1 10000|l л L liter litre litro litri litrów литр 升 リットル 리터=length \
    3 1 1000|ha hectare hectárea hektar гектар 公顷 ヘクタール=length 2 10000 1|dollar usd buck dólar dólare долларов \
    доллара 美元=dollar 1 1 1|cent ¢=dollar 1 1 100|euro eur € евро 欧元=euro 1 1 1|centime céntimo centesimi \
    cêntimo=euro 1 1 100|£ gbp sterling 英镑=sterling 1 1 1|pence penny pennie=sterling 1 1 100|ruble rub ₽ руб рубль \
    рубля рублей=ruble 1 1 1|копеек копейки копейка=ruble 1 1 100|yen yuan rmb ¥ 元 块 円 日元 人民币=yen 1 1 1|角 毛=yen 1 1 \
    10|rupee ₹ rs inr=rupee 1 1 1|paise paisa=rupee 1 1 100|won ₩ 원=won 1 1 1|TL ₺ lira=lira 1 1 1|real \
    reais=real 1 1 1|Rp rupiah=rupiah 1 1 1|₱ peso=peso 1 1 1|₫ đồng dong=dong \
    1 1 1|₪ shekel=shekel 1 1 1|฿ baht=baht 1 1 1|₦ naira=naira 1 1 1|₴ hryvnia=hryvnia 1 1 1|zł złoty złotych \
    zloty=zloty 1 1 1|radian rad=angle 1 1 1|celsius=celsius 1 \
    1 1|fahrenheit=fahrenheit 1 1 1|A ampere amp=current 1 1 1|K kelvin=kelvin 1 1 1|mol mole=amount 1 1 1|eV \
    electronvolt=eV 1 1 1|cal calorie=heat 1 1 1|Bq becquerel=activity 1 1 1|lm lumen=light 1 1 1|acre=length 2 \
    40468564224 10000000|gal gallon=length 3 3785411784 1000000000000|quart=length 3 946352946 1000000000000|\
    pint=length 3 473176473 1000000000000|bit=data 1 1 1|byte=data 1 8 1|decade=months 1 120 1|century centurie=months 1 1200 1|unit=unit 1 1 1";

/// Words of units in other languages: what they stand for in English. Of Russian words the ends of their cases are left
/// out.
const WORDS: &str = "平方=square |立方=cubic |세제곱=cubic |제곱=square |每=/|毎=/|кв. =square |кв =square |куб. =cubic |\
    квадратных =square |квадратные =square |квадратный =square |кубических =cubic |кубические =cubic | carrés= \
    squared| carré= squared| cuadrados= squared| cuadrado= squared| quadrados= squared| \
    quadrado= squared| quadrati= squared| quadrato= squared| cubes= cubed| cube= cubed| cúbicos= cubed| cúbico= cubed| \
    cubi= cubed| cubo= cubed|quadrat=square |kubik=cubic | por =/| par =/| pro =/| al =/| all'=/| в =/| 毎 =/";

/// Units with a name of their own: their names, and a factor before a product or quotient of others.
const DERIVED: &str = "mph=1 mi/h|kph kmph kmh=1 km/h|mps=1 m/s|N newton=1 kg m/s^2|J joule=1 kg m^2/s^2|W watt=1 kg \
    m^2/s^3|Pa pascal=1 kg/m s^2|atm atmosphere=101325 kg/m s^2|bar=100000 kg/m s^2|Hz hertz=1 s^-1|C coulomb=1 A s|\
    V volt=1 kg m^2/s^3 A|Ω Omega ohm=1 kg m^2/s^3 A^2|F farad=1 s^4 A^2/kg m^2|T tesla=1 kg/s^2 A|H henry henries=1 \
    kg m^2/s^2 A^2|Wb weber=1 kg m^2/s^2 A|Gy gray=1 m^2/s^2|Wh=3600 kg m^2/s^2|t т tonne tonelada 吨 トン 톤=1000 kg";

/// Prefixes of symbols and of names, and their factors.
const PREFIXES: &str = "p pico 1 1000000000000|n nano 1 1000000000|μ micro 1 1000000|u micro 1 1000000|m milli 1 1000|c centi 1 100|d deci 1 \
    10|da deca 10 1|h hecto 100 1|\
    k kilo 1000 1|M mega 1000000 1|G giga 1000000000 1|T tera 1000000000000 1";

/// Symbols that take a prefix.
const PREFIXED: &str = "m|g|s|l|L|A|K|mol|N|J|W|Pa|Hz|C|V|Ω|Omega|F|T|H|Wh|eV|bar|cal|Bq|lm";

/// Longest unit, in bytes.
const MAX_BYTES: usize = 60;

/// The dimensions of a unit, and its size in base units.
type Measure = (BTreeMap<&'static str, i32>, RBig);

/// Whether this is the name of a unit.
pub(super) fn is_known(name: &str) -> bool {
    multiply(&mut BTreeMap::new(), &mut RBig::ONE.clone(), name, 1).is_some()
}

/// Whether a text is a unit: `cm`, `square meters`, `km/h`, `miles per hour`.
pub(super) fn is_unit(text: &str) -> bool {
    measure(&bare_words(text)).is_some()
}

/// How many of the unit `gold` one of the unit `answer` is; `None` where they do not convert. Words that
/// are no known unit must be the same words.
pub(super) fn conversion(gold: &str, answer: &str) -> Option<RBig> {
    let (gold, way) = with_direction(gold);
    let (answer, other) = with_direction(answer);
    // The gold says which direction counts.
    (way.is_none() || way == other).then_some(())?;
    let (a, b) = (bare_words(gold), bare_words(answer));
    // Capitals tell symbols apart, `mW` and `MW`, and no names.
    let is_symbol = a.split(' ').any(|word| word.chars().count() <= 3);
    let is_sterling = |a: &str, b: &str| a == "£" && singular(b) == "pound";
    if singular(&a) == singular(&b)
        || (!is_symbol && singular(&a.to_lowercase()) == singular(&b.to_lowercase()))
        || is_sterling(&a, &b)
        || is_sterling(&b, &a)
    {
        return Some(RBig::ONE);
    }
    // Pages per minute, in pages per hour.
    if let (Some((things, of)), Some((others, its))) =
        (a.split_once(" per "), b.split_once(" per "))
        && measure(things).is_none()
        && singular(things) == singular(others)
    {
        return conversion(its, of);
    }
    let ((kinds, one), (others, other)) = (measure(&a)?, measure(&b)?);
    (kinds == others).then(|| other / one)
}

/// A temperature of one scale in another, as a factor and what is added: `None` for other units.
pub(super) fn temperature(gold: &str, answer: &str) -> Option<(RBig, RBig)> {
    // Kelvins of a degree, and how many degrees its zero lies above absolute zero.
    let part = |a: i32, b: u32| RBig::from_parts(a.into(), b.into());
    let scale = |unit: &str| {
        let words = bare_words(unit).to_lowercase();
        match words.trim_start_matches("degrees ").trim_start_matches("degree ") {
            "celsius" => Some((RBig::ONE, part(27_315, 100))),
            "fahrenheit" => Some((part(5, 9), part(45_967, 100))),
            "k" | "kelvin" | "kelvins" => Some((RBig::ONE, RBig::ZERO)),
            _ => None,
        }
    };
    let ((size, zero), (of_answer, its_zero)) = (scale(gold)?, scale(answer)?);
    let factor = of_answer / size;
    Some((factor.clone(), its_zero * factor - zero))
}

/// Whether a unit may have words of another language than English that are no names of units.
fn is_foreign(unit: &str) -> bool {
    !unit.is_ascii() && unit.len() > 3 || holds(unit, "uadra|ubi| por | par | pro | al |cubo|cubes")
}

/// The directions that the words of a unit may end with: `m/s east`.
const DIRECTIONS: &str = "north|south|east|west|northeast|northwest|southeast|southwest|up|down|for|back|leftward|rightward";

/// The words of a unit without the direction at their end, and the direction.
fn with_direction(unit: &str) -> (&str, Option<&str>) {
    match unit.rsplit_once(' ') {
        Some((bare, end)) if is_one_of(end, DIRECTIONS) => (bare, Some(end)),
        _ => (unit, None),
    }
}

fn singular(text: &str) -> &str {
    text.strip_suffix('s').filter(|_| text.len() > 2).unwrap_or(text)
}

/// A Russian word without the end of its case: `метр` of `метров`; `минут` of `минуты`.
fn stem(name: &str) -> &str {
    if !name.starts_with(|c: char| ('а'..='я').contains(&c)) || name.len() < 8 {
        return name;
    }
    ["ов", "ами", "ах", "а", "у", "ы", "и"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name)
}

/// What the tables say of a name, or of its singular: the part of its row that holds no names.
fn find(name: &str) -> Option<&'static str> {
    static ROWS: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
        let rows = each(UNITS).chain(each(DERIVED)).filter_map(|row| row.split_once('='));
        let names = rows.flat_map(|(names, row)| names.split(' ').map(move |name| (name, row)));
        // The first row of a name is the one that counts.
        names.collect::<Vec<_>>().into_iter().rev().collect()
    });
    [name, singular(name), stem(name)].iter().find_map(|name| ROWS.get(name).copied())
}

/// A size in a table.
fn fraction(above: Option<&str>, below: Option<&str>) -> Option<RBig> {
    let number = |text: &str| text.parse::<u64>().ok();
    Some(RBig::from_parts(number(above?)?.into(), number(below?)?.into()))
}

/// The rows of [`PREFIXES`].
static BY_PREFIX: LazyLock<Vec<[&str; 4]>> = LazyLock::new(|| {
    let words = |row: &'static str| row.split(' ').collect::<Vec<_>>().try_into().expect("four");
    each(PREFIXES).map(words).collect()
});

/// The unit that a name is a multiple of by its prefix, and the factor.
fn prefixed(name: &str) -> Option<(&str, RBig)> {
    BY_PREFIX.iter().find_map(|[symbol, word, above, below]| {
        let rest = name.strip_prefix(symbol).filter(|rest| is_one_of(rest, PREFIXED));
        let rest = rest.or_else(|| name.strip_prefix(word).filter(|rest| rest.len() > 2))?;
        Some((rest, fraction(Some(above), Some(below))?))
    })
}

/// The dimensions and size of a unit in folded words.
fn measure(unit: &str) -> Option<Measure> {
    (!unit.is_empty() && unit.len() <= MAX_BYTES).then_some(())?;
    let text = match unit.contains(' ') {
        true => unit.replace(" per ", "/").replace("degrees ", "").replace("degree ", ""),
        false => unit.to_owned(),
    };
    let text = match is_foreign(&text) {
        true => WORDS
            .split('|')
            .filter_map(|row| row.split_once('='))
            .fold(text.to_lowercase(), |text, (word, english)| text.replace(word, english)),
        false => text,
    };
    let (mut kinds, mut size) = (BTreeMap::new(), RBig::ONE);
    for (number, part) in text.split('/').enumerate() {
        let sign = if number == 0 { 1 } else { -1 };
        let mut pending = 1;
        let mut has_unit = false;
        let mut last = None;
        for word in part.split([' ', '*', '·', '{', '}']).filter(|word| !word.is_empty()) {
            match word {
                "square" | "sq" => pending = 2,
                "cubic" | "cu" => pending = 3,
                "squared" | "cubed" => {
                    let more = if word == "squared" { 1 } else { 2 };
                    multiply(&mut kinds, &mut size, last?, sign * more)?;
                }
                _ => {
                    last = Some(word);
                    let (name, power) = word.split_once('^').unwrap_or((word, "1"));
                    let power = power
                        .parse::<i32>()
                        .ok()
                        .filter(|power| (1..=4).contains(&power.unsigned_abs()))?;
                    has_unit = true;
                    multiply(&mut kinds, &mut size, name, sign * power * pending)?;
                    pending = 1;
                }
            }
        }
        has_unit.then_some(())?;
    }
    kinds.retain(|_, power| *power != 0);
    // Square units of no length are units.
    if let Some(power) = kinds.get_mut("unit") {
        *power = 1;
    }
    Some((kinds, size))
}

/// Multiplies a measure by a power of a unit.
fn multiply(
    kinds: &mut BTreeMap<&'static str, i32>,
    size: &mut RBig,
    name: &str,
    power: i32,
) -> Option<()> {
    let Some(unit) = find(name) else {
        if let Some((rest, factor)) = prefixed(name) {
            *size *= raised(&factor, power);
            return multiply(kinds, size, rest, power);
        }
        // Names may begin with a capital, symbols tell `mW` from `MW`.
        let lower = name.to_lowercase();
        let is_name = name.len() > 2 && lower != name;
        return if is_name { multiply(kinds, size, &lower, power) } else { None };
    };
    if let Some((factor, derived)) = unit.split_once(' ').filter(|_| unit.starts_with(is_digit)) {
        let (others, one) = measure(derived)?;
        for (kind, of_kind) in others {
            *kinds.entry(kind).or_insert(0) += of_kind * power;
        }
        *size *= raised(&(one * RBig::from(factor.parse::<u64>().ok()?)), power);
        return Some(());
    }
    let mut words = unit.split(' ');
    let (kind, of_kind) = (words.next()?, words.next()?.parse::<i32>().ok()?);
    *kinds.entry(kind).or_insert(0) += of_kind * power;
    *size *= raised(&fraction(words.next(), words.next())?, power);
    Some(())
}

fn raised(base: &RBig, power: i32) -> RBig {
    let size = (0..power.unsigned_abs()).fold(RBig::ONE, |product, _| product * base);
    if power < 0 { RBig::ONE / size } else { size }
}

/// The Greek letters of units as characters: `M\Omega` is one symbol.
pub(super) fn with_greek(text: &str) -> String {
    let text = text.replace("\\Omega", "Ω").replace("\\mu", "μ");
    if text.contains('μ') { text.replace("μ ", "μ") } else { text }
}

/// The words of a unit in LaTeX, `m\,s^{-2}`, or in the commands of siunitx, `\metre\per\second\squared`.
pub(super) fn unit_words(text: &str) -> String {
    let (mut words, text) = (String::new(), with_greek(text));
    // What stands before the next name: `\per` turns its power, `\square` raises it.
    let (mut is_per, mut power, mut prefix) = (false, 1, String::new());
    for part in text.split_inclusive(|c: char| !c.is_alphanumeric() && c != '^' && c != '-') {
        let name = part.trim_matches(|c: char| " \\,;~{}./".contains(c));
        match name {
            "per" => is_per = true,
            "square" | "squared" | "cubic" | "cubed" => {
                let raised = if name.starts_with("squ") { 2 } else { 3 };
                match name.ends_with('d') {
                    true => words.push_str(&format!("^{raised}")),
                    false => power = raised,
                }
            }
            name if BY_PREFIX.iter().any(|row| row[1] == name) => prefix = name.to_owned(),
            "cdot" | "times" | "" => {}
            _ => {
                if !words.is_empty() {
                    words.push_str(if is_per { " per " } else { " " });
                }
                words.push_str(&prefix);
                words.push_str(name);
                if power > 1 {
                    words.push_str(&format!("^{power}"));
                }
                (is_per, power) = (false, 1);
                prefix.clear();
            }
        }
        if part.ends_with('/') {
            words.push_str(" per ");
        }
    }
    // `^{-2}` was taken apart at its brace.
    words.replace("^ ", "^")
}
