def first_word(gold, completion):
    return completion.lower().startswith(gold)
