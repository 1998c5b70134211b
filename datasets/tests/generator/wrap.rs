//! Completions around an answer, and completions that give none.

use crate::item::Random;

/// A completion, and whether a mark names its answer, which the strict mode needs.
pub(crate) struct Wrapped {
    pub(crate) text: String,
    pub(crate) is_marked: bool,
}

const MARKED_MATH: &str = "\
    \\boxed{V}~$\\boxed{V}$~The final answer is \\boxed{V}.~\
    So $D+1$ is too large, and the result is $\\boxed{V}$.~\\[\\boxed{V}\\]~The answer is $V$.~\
    We have D cases. Therefore the answer is $V$.~Final Answer: $V$~**Answer:** $V$~<answer>$V$</answer>~\
    <answer>\\boxed{V}</answer>~<think>Maybe \\boxed{D}? Let me see.</think>\nIt is \\boxed{V}.~\
    At first I got \\boxed{D}, but I forgot a case. The correct value is \\boxed{V}.~\
    therefore \\boxed{V}. Let me explain it once more.\n\n**Final Answer**\n\\boxed{V}~#### $V$~\
    \\boxed{V}<|im_end|>~$$\\fbox{V}$$~<scratchpad>D</scratchpad>The answer is $V$~\
    Thus the final answer is: $$V$$~\\boxed{V}\n\nQuestion: How many are D and D?\nAnswer: \\boxed{D}~\
    **Step 1** D of them.\n**Step 2** So we get \\boxed{V}~The correct answer is \\(V\\).";

const OPEN_MATH: &str = "\
    $V$~So it is $V$.~We find D first, and therefore $x$ has the value $V$.~V~\
    Thus the result is $V$. Hope this helps!~Hence we get\n\\[V\\]";

const MARKED_PLAIN: &str = "\
    The answer is V.~ANSWER: V~Answer: V~#### V~She has D of them.\n#### V~<answer>V</answer>~\
    <answer> V </answer>~So the final answer is V.~**Final Answer:** V~Therefore, the answer is: V~\
    <think>D is too small.</think>The answer is V.~The answer is V\n\nQuestion: What is D?\nAnswer: D~\
    There are D in all, so the correct answer is V.~<final_answer>V</final_answer>~La respuesta es V.~答案是V。";

const OPEN_PLAIN: &str = "\
    V~So it is V.~Thus we get D first, and in the end the result is V.~**V**~The result: V";

/// Puts an answer in LaTeX into a completion.
pub(crate) fn math(r: &mut Random, answer: &str) -> Wrapped {
    wrap(r, answer, MARKED_MATH, OPEN_MATH)
}

/// Puts an answer in plain text into a completion.
pub(crate) fn plain(r: &mut Random, answer: &str) -> Wrapped {
    wrap(r, answer, MARKED_PLAIN, OPEN_PLAIN)
}

fn wrap(r: &mut Random, answer: &str, marked: &str, open: &str) -> Wrapped {
    let is_marked = !r.one_in(5);
    let pattern = r.pick_of(if is_marked { marked } else { open });
    let distractor = r.int(1001, 1999).to_string();
    let text = pattern.replace('D', &distractor).replace('V', answer);
    Wrapped { text, is_marked }
}

/// Completions that answer a gold integer without solving: each must be refused in both modes.
pub(crate) fn hacks(r: &mut Random) -> (String, String) {
    let n = r.int(2, 90);
    let (k, c, o) = (r.int(2, 9), r.int(1, 9), n + r.int(1, 9));
    let letter = *r.pick(&['A', 'B', 'C', 'D']);
    let rows: Vec<(String, String)> = vec![
        (format!("x={n}"), format!("\\boxed{{{k}x+{c}={}}}", k * n + c)),
        (format!("x={n}"), format!("The answer is ${k}x={}$.", k * n)),
        (format!("x>{n}"), format!("\\boxed{{{k}x+{c}>{}}}", k * n + c)),
        (n.to_string(), format!("\\boxed{{{k}x+{c}={}}}", k * n + c)),
        (n.to_string(), format!("It cannot be {n}.")),
        (n.to_string(), format!("{n} is wrong.")),
        (n.to_string(), format!("So {n} is not the answer.")),
        (n.to_string(), format!("The answer is not {n}.")),
        (n.to_string(), format!("The answer is not \\boxed{{{n}}}.")),
        (n.to_string(), format!("The answer is {n} or {o}.")),
        (n.to_string(), format!("The answer is between {n} and {o}.")),
        (n.to_string(), format!("The answer is {n}, {o}, or {}.", o + 2)),
        (n.to_string(), format!("\\boxed{{{n}}} or \\boxed{{{o}}}")),
        (n.to_string(), format!("\\boxed{{{n}}} or {o}")),
        (n.to_string(), format!("I don't think the answer is {n}.")),
        (n.to_string(), format!("It is false that it is {n}.")),
        (n.to_string(), format!("One might think the answer is {n}, but the answer is {o}.")),
        (n.to_string(), format!("The answer is {n}? No.")),
        (n.to_string(), format!("Nobody would say {n}.")),
        (n.to_string(), format!("La respuesta no es {n}.")),
        (n.to_string(), format!("答案不是{n}。")),
        (n.to_string(), format!("We reject {n}.")),
        (n.to_string(), format!("Is the answer {n}?")),
        (n.to_string(), format!("$x > \\boxed{{{n}}}$")),
        (n.to_string(), format!("${k}\\cdot\\boxed{{{n}}}$")),
        (n.to_string(), format!("${c}^{{\\boxed{{{n}}}}}$")),
        (n.to_string(), format!("$\\boxed{{{n}}} - {c}$")),
        (letter.to_string(), format!("I do not believe that it is {letter}.")),
        (letter.to_string(), format!("None of A, {letter} and E is correct.")),
        (letter.to_string(), format!("Everything except {letter} is correct.")),
        (n.to_string(), format!("\\boxed{{{n}, {o}}}")),
        (n.to_string(), format!("\\boxed{{{n} \\text{{ or }} {o}}}")),
        (n.to_string(), format!("\\boxed{{{n} \\text{{ to }} {o}}}")),
        (n.to_string(), format!("$-\\boxed{{{n}}}$")),
        (n.to_string(), format!("${k}\\boxed{{{n}}}$")),
        (n.to_string(), format!("$\\boxed{{{n}}}^2$")),
        (n.to_string(), format!("$\\boxed{{{n}}}\\text{{ million}}$")),
        (n.to_string(), format!("$\\frac{{\\boxed{{{n}}}}}{{{k}}}$")),
        (n.to_string(), format!("$\\sqrt{{\\boxed{{{n}}}}}$")),
        (n.to_string(), format!("<think>It is \\boxed{{{n}}}")),
        (n.to_string(), format!("\\boxed{{\\text{{not }}{n}}}")),
        (n.to_string(), format!("\\boxed{{{n}}} is wrong, and I do not know better.")),
        (n.to_string(), format!("\\boxed{{x={n}={o}}}")),
        (n.to_string(), format!("\\boxed{{{n}}}, wait, no: \\boxed{{{o}}}")),
        (n.to_string(), format!("The count is {o} rather than {n}.")),
        (n.to_string(), format!("The answer is {n} million.")),
        (n.to_string(), format!("\\boxed{{>{n}}}")),
        (n.to_string(), format!("\\boxed{{x \\le {n}}}")),
        (n.to_string(), format!("\\boxed{{{n}\\text{{ is wrong}}}}")),
        (n.to_string(), format!("\\boxed{{}} {n} \\boxed{{{o}}}")),
        (letter.to_string(), "A. 3\nB. 4\nC. 5\nD. 6".into()),
        (letter.to_string(), "(A) 1/2 (B) 1/3 (C) 1/4 (D) 1/5".into()),
        (letter.to_string(), "\\boxed{A, B, C, D}".into()),
        (letter.to_string(), "The answer is A, B, C or D.".into()),
        (letter.to_string(), "<answer>A B C D</answer>".into()),
        (letter.to_string(), format!("{letter} is not correct.")),
        (letter.to_string(), format!("({letter}) is wrong")),
        (letter.to_string(), format!("The answer is not {letter}.")),
        (letter.to_string(), format!("\\boxed{{\\text{{not {letter}}}}}")),
        (letter.to_string(), format!("\\boxed{{{letter}}} is incorrect.")),
        (letter.to_string(), "ANSWER: None of the above".into()),
        (letter.to_string(), "ANSWER: Don't know".into()),
        ("I".into(), "I do not know".into()),
        ("A".into(), "A triangle".into()),
        ("A".into(), "A good question!".into()),
        ("No".into(), "No, I can't help with that.".into()),
        ("no solution".into(), "I could not find a solution.".into()),
        (format!("({n},{o})"), format!("\\boxed{{{n} \\text{{ or }} {o}}}")),
        ("Monday".into(), "It is Tuesday, since yesterday was Monday".into()),
        ("Evelyn".into(), "\\boxed{\\text{Bob, not Evelyn}}".into()),
        ("Evelyn".into(), "The answer is Bob or Evelyn.".into()),
        ("Yes".into(), "\\boxed{\\text{Yes or No}}".into()),
    ];
    r.pick(&rows).clone()
}
