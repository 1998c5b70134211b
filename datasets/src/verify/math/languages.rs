//! What a text says of its answer in words, in the languages that are read: tables of words in small letters.

use regex::Regex;

use super::answer::last_sentence;
use super::scan::{
    before_end, begins, each, ends_with, first, has_digits, head, holds, is_one_of, lowered,
    pattern,
};

/// Take back what stands before them.
const REVOCATIONS: &str = "iese Aussage ist falsch|iese Behauptung ist falsch|ette affirmation est fausse|sta \
            afirmación es falsa|uesta affermazione è falsa|ssa afirmação é falsa|то утверждение ложно|то утверждение \
            неверно|这是错误的|这个说法不对|これは誤り|이것은 거짓|e equivoqué|orrijo|ectifico|orrección:|suis tromp|e corrige|orrection :|\
            habe mich verrechnet|habe mich geirrt|habe mich vertan|habe mich verzählt|ch korrigiere|orrektur:|i sono \
            sbagliat|orreggo|e enganei|Errei|orrigindo|orreção:|шибся|шиблась|справляю|оправка:|omyliłem|omyliłam|\
            orekta:|k vergis|lvidé|olvidado|vergessen|übersehen|oublié|imenticato|squeci|esquecido|vergeten|unuttum|\
            lupa |забыл|упустил|漏了|漏掉|忘了|忘记|忘れ|빠뜨|깜빡|不对|等等|修正后|题目问的|题目要求的是|题目求的是|as ist falsch|sto es falso|sto è \
            falso|sto é falso|so es incorrecto|so está mal|'est faux|sbagliato|stá errado|то неверно|at is fout|anlış|\
            orrectie:|Nein, |Нет, |Não, |Точнее|Вернее|mejor dicho|ou plutôt|oder vielmehr|或者说|いや、|\
            üzeltiyorum|ata yapt|aya salah|更正|订正|訂正|算错|搞错|弄错|说错|看错|計算ミス|間違えました|間違いました|ที่ถูกคือ|ที่ถูกต้องคือ|\
    ไม่ใช่ครับ|ไม่ใช่ค่ะ|ผิดครับ|ผิดค่ะ|정정합|잘못 계산|틀렸습니다";

/// Apologise, or ask to wait; the later ones in scripts without blanks between words.
fn apologies() -> &'static Regex {
    const WORDS: &str = "apologies|pardon|excuse me|i stand corrected|whoops|o?oups|ups|ops|sorry|przepraszam|pomyłka|\
        wybacz|poprawka|to błąd|czekaj|entschuldigung|verzeihung|tut mir leid|ich meinte|das war ein fehler|moment,|\
        halt,|désolée?|excuse[sz]|erreur de|je voulais dire|attend(?:s|ez),|perd[oó]n|perdona|lo siento|disculp[ae]|\
        quise decir|fe de erratas|espera,|scus[aio]|mi dispiace|mi scuso|volevo dire|ho sbagliato|aspetta,|\
        desculp[ae]|perdão|me enganei|quis dizer|lamento|peço desculpa|excuses|foutje|ik bedoel|neem me niet kwalijk|\
        wacht,|извини|прости|прошу прощения|ошибка|опечатка|виноват|я имела? в виду|ой|стоп|погоди|özür dilerim|\
        kusura bakma|affedersiniz|bekle|xin lỗi|nhầm|sửa lại|khoan|maaf|mohon maaf|falsch gerechnet|ich nehme das \
        zurück|error mío|błąd|typo|i made a typo|forgive me|i apologi[sz]e|сорри|ralat|tunggu|samahani|nilikosea|\
    nimekosea|hapana|क्षमा|माफ़|माफ|দুঃখিত|\
        عذرا|المعذرة|آسف|أعتذر|خطأ";
    const UNSPACED: &str = "抱歉|对不起|不好意思|失误|[写算说搞弄]错|纠正|哦不|笔误|口误|すみません|失礼しました|申し訳|ごめん|正しくは|間違え|待って|죄송|미안|실수|아니, |\
        잠깐|ขอโทษ|ขออภัย|ผิดพลาด|แก้ไข";
    // "In fact" does so only before a value at the end.
    const FACTS: &str = "na verdade|en realidad|en fait|eigentlich|genauer gesagt|eigenlijk|на самом деле|in realtà|\
        aslında|właściwie|thực ra|sebenarnya|사실은?|実は|实际上|其实|في الواقع|จริงๆ";
    const END: &str = "[^0-9.\\n]{0,24}-?[0-9]+[^0-9\\n]{0,12}$";
    pattern!(&format!("(?:^|[^\\p{{L}}])(?:{WORDS}|(?:{FACTS}){END})|{UNSPACED}"))
}

/// Where a text apologises before another value follows.
fn apology(text: &str) -> Option<usize> {
    const MAX_NEAR: usize = 80;
    let small = lowered(text);
    let found = apologies().find_iter(&small).map(|found| found.start()).take(8);
    { found }.find(|at| has_digits(head(&text[*at..], MAX_NEAR)))
}

/// Whether words apologise.
pub(super) fn is_apology(words: &str) -> bool {
    apologies().is_match(&lowered(words))
}

/// Where a text in another language than English takes back what stands before. "No" does where another value follows.
pub(super) fn revocation(text: &str) -> Option<usize> {
    const NO: &str = "Nein|Нет|Não|いや|Точнее|Вернее|lvidé|olvidado|vergessen|übersehen|oublié|imenticato|squeci|esquecido|\
        vergeten|unuttum|lupa |забыл|упустил|漏|忘|빠|깜|不对|等等|修正|题目|as ist|so es|so está|'est faux|sbag|stá err|\
        то неверно|at is fout|anlış|sto es|sto è|sto é";
    let found = first(text, REVOCATIONS).filter(|found| {
        let behind = &text[found.end..];
        let is_last = || !behind.contains(char::is_alphanumeric);
        let needs_value = begins(&text[found.clone()], NO);
        text.len() > 7 && (!needs_value || behind.contains(char::is_numeric) || is_last())
    });
    let at = found.map(|found| found.start);
    at.into_iter().chain(apology(text)).min()
}

/// Yes and no.
const YES: &str = "yes|true|not false|sí|si|oui|ja|да|是|是的|对|对的|正确|はい|예|네|tak|evet|ya|vâng|sim|sì|हाँ|نعم";
const NO: &str = "no|false|not true|non|nein|nee|nie|нет|不|不是|不对|否|错|错误|いいえ|아니요|아니오|hayır|tidak|không|não|नहीं|لا";

/// Yes or no, of a word in small letters.
pub(super) fn polar(word: &str) -> Option<bool> {
    let is_yes = is_one_of(word, YES);
    (is_yes || is_one_of(word, NO)).then_some(is_yes)
}

/// Whether a text says yes in one case and no in another: "Yes if n is even, no if n is odd."
pub(super) fn is_by_cases(text: &str) -> bool {
    let said = pattern!(
        r"(?i)\b((?:otherwise|else|but|in which case)[, *]+)?(?:(yes|true)|no|false|not)\b([ ,*(]+(?:if|when|for|in|over|on|unless|whenever|provided|among|otherwise)\b)?"
    );
    let cases = said.captures_iter(text).filter(|said| said.get(1).or(said.get(3)).is_some());
    let (yes, no): (Vec<bool>, Vec<bool>) =
        cases.map(|said| said.get(2).is_some()).partition(|is_yes| *is_yes);
    !yes.is_empty() && !no.is_empty()
}

/// Whether a sentence begins with a "no" that belongs to a noun: "No counterexample exists, so the statement is true."
pub(super) fn is_no_of_noun(sentence: &str) -> bool {
    const OTHERS: &str = "exist|pued|tien|siempre|todo|toda|cumpl|neces|sirve|vale|conv|importa|because|since|they|this|\
        that|there|these|those|however|unless|when";
    let noun = pattern!(r"^\W*[Nn]o (one|[a-z]{4,}) ").captures(sentence);
    noun.is_some_and(|noun| !begins(noun.get(1).map_or("", |word| word.as_str()), OTHERS))
}

/// Words that a reason begins with, behind yes or no.
pub(super) const REASONS: &str = "because |since |as |for |denn |weil |da |car |puisque |pues |porque |perché |poiché |omdat |want |так как|потому|因为";

/// Say that what follows is not so.
const UNTRUE: &str = "stimmt nicht, dass|nicht wahr, dass|ist falsch, dass|glaube nicht, dass|denke nicht, dass|bezweifle, dass|no es \
            cierto que|no es verdad que|es falso que|no creo que|dudo que|est faux que|pas vrai que|ne crois pas que|\
            ne pense pas que|doute que|non è vero che|è falso che|non credo che|dubito che|não é verdade que|é falso \
            que|não acho que|não creio que|duvido que|неверно, что|неправда, что|не правда, что|не думаю, что|\
            сомневаюсь, что|niet waar dat|onjuist dat|denk niet dat|nieprawda, że|nie sądzę, że|tidak benar bahwa|\
            không đúng|不认为|不相信|不觉得|不能说";

/// Whether words before a value say that what follows is not so: "es stimmt nicht, dass die Antwort".
pub(super) fn is_denied_ahead(before: &str) -> bool {
    first(&lowered(before), UNTRUE).is_some_and(|found| {
        let at = found.start;
        let is_end = |(end, mark): (usize, &str)| {
            !begins(&before[at + end + mark.len()..], " dass| что| że")
        };
        !before[at..].match_indices(['.', ';', '。', '\n', ',']).any(is_end)
    })
}

/// Nothing is decided or known, as a part of the last sentence.
const UNDECIDED: &str = "can't tell|cannot tell|could not tell|can't decide|cannot decide|unable to decide|does not \
            specify|doesn't specify|does not say which|not specified|i know of no|made no progress|made 0 progress|no \
            solution to offer|got nowhere|and failed|found nothing|not guess|won't guess|steps to this|steps in this|\
            parts to this|ways to solve this|methods for this|approaches to this|hints for this|without success|to no \
            avail|donne donc les deux|donne les deux|ne précise pas|impossible de trancher|je ne sais pas|je ne suis \
            pas sûr|je n'en suis pas sûr|je ne peux pas|je n'arrive pas|je n'ai pas|sans certitude|je devine|lässt \
            das|lässt es offen|leider offen|bleibt offen|weiß ich nicht|weiß es nicht|ich weiß nicht|nicht sicher|\
            kann ich nicht|konnte ich nicht|bloß geraten|nur geraten|no puedo|no pude|no sé |no estoy segur|no queda \
            claro|no se especifica|no aclara|es una suposición|no lo sé|não há dados|não sei|não consegui|não tenho \
            certeza|não posso|é um palpite|non lo so|non sono sicur|non posso|non riesco|не знаю|не могу|не удалось|\
            не уверен|не указано|не сказано|не ясно|неясно|nie wiem|nie jestem pewien|nie potrafię|weet ik niet|ik \
            weet het niet|niet zeker|bilmiyorum|emin değilim|tidak tahu|tidak yakin|không biết|không chắc|不知道|无法确定|\
            無法確定|不能确定|不确定|不確定|没有把握|没把握|拿不准|说不准|说不清|无法判断|不会做|猜的|我猜|难以确定|两种情况都|没有说明|わかりません|分かりません|わからない|分からない|決められ|判断でき|\
            自信が|勘です|모르겠|알 수 없|확실하지|확신이|결정할 수|لا أعرف|لست متأكد|पता नहीं";

/// Leads on to what is concluded all the same.
pub(super) const CONSEQUENCES: &str = ", so |, but |, yet |, thus |, hence |, therefore |, donc |, mais |, also |, aber |\
    , así que |, por lo que |, luego |, pero |, então |, logo |, portanto |, mas |, quindi |, dunque |, ma |, dus |\
    , więc |, поэтому |, значит, |, но |所以|因此|故|但|だから|よって|따라서";

/// No solution, at the end of a clause in small letters.
const NO_SOLUTION: &str = "no (?:such |real |integer )*(?:solution|root|answer|value)s? ?(?:exists?)?|keine? (?:reellen? )?(?:lösung(?:en)?|\
        nullstellen?)|(?:aucune|pas de) (?:solution|racine)s?(?: réelles?)?|(?:sin|no hay|no tiene|ninguna) (?:\
        solución|soluciones|raíces)(?: real(?:es)?)?|(?:sem|não há|não tem|não possui|não existe) (?:solução|soluções|\
        raízes)(?: rea(?:l|is))?|(?:nessuna|non (?:ci sono|ha|esistono|esiste)) (?:soluzion[ei]|radici)(?: real[ei])?|\
        (?:нет|не имеет) (?:действительных |вещественных )?(?:решений|корней)|geen (?:reële )?oplossing(?:en)?|(?:brak|\
        nie ma) (?:rzeczywistych )?rozwiązań|(?:无|無|没有)实?数?[解根]|[実数]*解(?:は|を)?(?:なし|存在しない|持たない)|해[가는] 없다|\
        çözüm[ü]? yok(?:tur)?|tidak ada (?:solusi|penyelesaian)|vô nghiệm|không có nghiệm";

/// Where a clause ends in words for no solution: their beginning.
pub(super) fn no_solution(clause: &str) -> Option<usize> {
    let at_end = pattern!(&format!("(?:^|[^a-zа-я])({NO_SOLUTION})$"));
    Some(at_end.captures(&lowered(clause))?.get(1)?.start())
}

/// Words at the beginning of what is only guessed.
const HEDGES: &str = "maybe |perhaps |possibly |could be |might be |it could be |it might be |it may be |\
    vielleicht |peut-être |quizás |quizá |tal vez |talvez |forse |возможно|может быть|może |misschien |belki |\
    mungkin |có lẽ |có thể |möglicherweise |eventuell |posiblemente |possivelmente |possibilmente |magari |być może |\
    ewentualnie |mogelijk |ربما |शायद |可能是|也可能|也许|或许|大概是|大概有|たぶん|おそらく|もしかし|아마";

/// Whether the last sentence of an answer, in small letters, leaves it undecided.
pub(super) fn is_undecided(last: &str) -> bool {
    // "Perhaps the easiest way is to add: 4 + 5 = 9."
    let is_short = last.split_whitespace().count() <= 6 && last.len() <= 60 && !last.contains('=');
    let hedge = (is_short && begins(last, HEDGES)).then_some(0);
    let found = hedge.or_else(|| Some(first(last, UNDECIDED)?.start));
    found.is_some_and(|at| !holds(&last[at..], CONSEQUENCES) && !last[at..].contains("tell you"))
}

/// What may stand before words for a check, and how these begin.
pub(super) const BEFORE_CHECKS: &str =
    "(?:(?:now|but|however|let us|let['’]s|quick|sanity|to|as a|when|if we|we(?: can)?|zur),? )*";
pub(super) const CHECKS: &str = "(?:double[- ])?check|verif|test\\b|testing|probe\\b|kontroll|überprüf|comprob|vérif|prova\\b|\
    провер|sprawdz|sağlama|kontrol|controle\\b|pemeriksaan|kiểm tra|thử lại|检验|檢驗|检查|验|驗|検算|確認|확인|검산";

/// What goes on behind a check.
const CONCLUSIONS: &str = " so | thus|therefore|hence|answer|donc |daher |deshalb|por lo tanto|portanto|quindi|\
    поэтому|所以|因此|答案|したがって|따라서";
/// Words that a check begins with that is a sentence of its own.
const INDEED: &str =
    "Indeed|Infatti|En effet|En efecto|In der Tat|Действительно|Inderdaad|Rzeczywiście";

/// A text without the check at its end: "It is 24. Probe: 8 + 16 = 24."
pub(super) fn without_check(text: &str) -> &str {
    let is_check = |colon: &usize| {
        // No check has a longer name, and a text may be colons throughout.
        let before = super::super::tail(&text[..*colon], 80);
        let words = before.rsplit(['.', '\n', '。', '!']).next().unwrap_or(before);
        let name = words.trim_matches([' ', '*', '_', '(', '#']).to_lowercase();
        pattern!(&format!("^{BEFORE_CHECKS}(?:(?:{CHECKS})\\p{{L}}*|proof)$")).is_match(&name)
    };
    if let Some((before, check)) = text.rsplit_once(". ")
        && begins(check, INDEED)
        && last_sentence(before).bytes().any(|byte| byte.is_ascii_digit())
    {
        return before;
    }
    let mut colons = text.match_indices([':', '：']).map(|(at, _)| at);
    let Some(colon) = colons.rfind(is_check) else { return text };
    let start = text[..colon].rfind(['.', '\n', '。', '!']);
    let before = start.map_or("", |at| text[..at].trim_end());
    let fails = holds(&text[colon..], " not |≠|n't|nicht|wrong|fail|不成立|不符|错|✗");
    let concludes = holds(&text[colon..].to_lowercase(), CONCLUSIONS);
    let is_last = !concludes && !text[colon..].trim().contains('\n');
    if before.contains(|c: char| c.is_numeric() || c == '\\') && is_last && !fails {
        before
    } else {
        text
    }
}

/// Words that courtesies begin with.
const COURTESIES: &str = "explanation:|reason:|p.s|ps:|note:|*note|remark:|hinweis:|nota:|remarque|was this|\
    please tell|rate |have a |cheers|don't hesitate|do not hesitate|let me know|please let me know|i can give|\
    i can show|i could give|i could show|feel free|hope this|i hope|hope that|if you have|if you need|if you'd|\
    if you want|if this |is there anything|would you like|happy to|glad to|thank|good luck|mucha suerte|suerte |\
    buena suerte|espero |ojalá |gracias|avísame|si tienes|viel erfolg|viel glück|ich hoffe|hoffentlich|danke|\
    bonne chance|bon courage|j'espère|n'hésite|merci|buona fortuna|in bocca al lupo|spero |grazie|boa sorte|\
    bons estudos|obrigad|удачи|надеюсь|спасибо|powodzenia|mam nadzieję|dziękuję|succes|veel succes|ik hoop|\
    başarılar|umarım|semoga|chúc |hy vọng|祝|希望|加油|如果你|如有|谢谢|頑張|お役に|ご質問|ありがとう|도움이|행운|감사";

/// Whether a sentence, in small letters, is a courtesy.
pub(super) fn is_courtesy(sentence: &str) -> bool {
    begins(sentence.trim_start_matches(|c: char| !c.is_alphanumeric()), COURTESIES)
        || holds(sentence, "頑張|加油|お役に立|도움이 되")
}

/// Words behind a number that compare something with it, and before one that is only a part of what is meant.
const COMPARED: &str = " de plus qu| de moins qu| mehr als| weniger als| más que| menos que| di più di| di meno \
    di| a mais que|a menos que| больше, чем| меньше, чем| больше чем| меньше чем";
const PARTS: &str = "doppio di|triplo di|metà di|doble de|triple de|mitad de|double de|moitié de|doppelte von|\
    hälfte von|dobro de|metade de|половина от|половины от";

/// Whether the words around a number make it a part of a comparison or of a multiple: "soit 2 de plus que Paul".
pub(super) fn is_compared(before: &str, after: &str) -> bool {
    begins(after, COMPARED) || before_end(&before.trim_end().to_lowercase(), PARTS).is_some()
}

/// Words between alternatives, behind the first one.
const ALTERNATIVES: &str = " or| oder| ou| o| oppure| или| либо| lub| albo| veya| ya da| atau| hoặc| either| \
    entweder| soit| ya| beziehungsweise| bzw.| bądź| yahut| hay| หรือ| বা| অথবা| কিংবা| या| अथवा| أو| أم| \
    ovvero| dan wel| bis| tot| à| до| do| hasta| até| ile| \
    sampai| đến| through| and/or|到|至|から|에서|부터|ถึง|或者|或|还是|還是|か|または|あるいは|もしくは|หรือ|또는|혹은|이나|나";

/// A text that ends in a word between alternatives, up to that word.
pub(super) fn before_alternative(text: &str) -> Option<&str> {
    before_end(text, ALTERNATIVES)
}

/// Words between a value and another guess.
const GUESSES: [&str; 5] = ["可能", "voire", "а может", "alternatively", "respectively"];

/// A text that ends in a word that guesses, up to that word.
pub(super) fn before_hedge(text: &str) -> Option<&str> {
    let is_mark = |c: char| " ,，、،".contains(c);
    let text = text.trim_end_matches(is_mark);
    let end = each(HEDGES).chain(GUESSES).map(str::trim).find(|word| ends_with(text, word))?.len();
    Some(text[..text.len() - end].trim_end_matches(is_mark))
}

/// Whether a remark in small letters begins with a word between alternatives, or one that guesses.
pub(super) fn is_alternative(remark: &str) -> bool {
    let mut words = each(ALTERNATIVES).chain(each(HEDGES)).chain(GUESSES).map(str::trim);
    let is_end = |word: &str, rest: &str| {
        word.ends_with(|c| c > '\u{e00}') || !rest.starts_with(char::is_alphanumeric)
    };
    words.any(|word| remark.strip_prefix(word).is_some_and(|rest| is_end(word, rest)))
}

/// Words that a case begins with, and those in other letters.
const CASES: &str = "if|when|assuming|supposing|without|with|counting|interpretation|reading|case|caso|cas|sin|\
    si|avec|sans|wenn|falls|fall|mit|ohne|con|com|sem|senza|se|als|met|zonder|bez|jika|otherwise";
const CASES_ABROAD: &str =
    "zählt |jeśli |eğer |nếu |если |при |с |без |случай |若|如果|假如|当|情况";
/// Deny the other case.
const CONTRARIES: &str = " not|n't|without|otherwise|nicht|ohne| no |sin | pas|sans|não|sem | non|senza| не|без |\
    niet|zonder|nie |bez |tidak|không|不|非|没";

/// Whether a sentence is about one case.
pub(super) fn is_case(sentence: &str) -> bool {
    let words = sentence.trim_start_matches(|c: char| !c.is_alphanumeric());
    let end = words.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(words.len());
    let is_word = words[end..].starts_with([' ', ':', ',']);
    // No case begins with one of the other letters, as "the", "thus" and "hence" do.
    let may_be = words.bytes().next().is_some_and(|byte| b"iwascrfmozbj".contains(&(byte | 32)));
    (may_be && is_word && each(CASES).any(|case| case.eq_ignore_ascii_case(&words[..end]))
        || !head(words, 8).is_ascii() && begins(&lowered(head(words, 24)), CASES_ABROAD))
        && !words.contains(['<', '>'])
}

/// Whether two sentences, one behind the other, give the values of opposite cases: "With replacement: 4/9. Without: 1/3."
pub(super) fn are_opposite(one: &str, other: &str) -> bool {
    let condition = |sentence: &str| {
        let (condition, value) = sentence.split_once([',', ':', '，', '：'])?;
        let is_plain = !condition.contains(|c: char| c.is_ascii_digit() || c == '=' || c == '$');
        let has_value = has_digits(value);
        (is_case(sentence) && is_plain && has_value).then(|| condition.to_lowercase() + " ")
    };
    let (one, other) = (condition(one), condition(other));
    one.zip(other).is_some_and(|(one, other)| holds(&one, CONTRARIES) != holds(&other, CONTRARIES))
}
