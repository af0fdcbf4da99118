// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a text of assignments and parses it, in an order that a profile can improve: the
 * code first looks for errors, which never occur, and for rare cases before common cases.
 * The program has no library, so that it always executes the same number of instructions.
 */
#define noinline	__attribute__((__noinline__))

#define SIZE	6000
#define ROUNDS	40
#define NAMES	256
#define LONGEST	64

enum token {
	END, NUMBER, NAME, STRING, SIGN,
	BAD_CONTROL, BAD_STRING, BAD_NUMBER, BAD_NAME, BAD_SIGN
};

static unsigned char text[SIZE + 1];
static unsigned long values[NAMES];
static unsigned long errors, lines, comments, strings, sum;

static const unsigned char *at;
static unsigned long value;

static unsigned int next_random(void)
{
	static unsigned int seed = 1;

	seed = seed * 1103515245 + 12345;
	return seed >> 16;
}

static unsigned char *put(unsigned char *to, const char *what)
{
	while (*what)
		*to++ = *what++;
	return to;
}

static unsigned char *put_name(unsigned char *to)
{
	unsigned int n = 3 + next_random() % 8;

	while (n--)
		*to++ = 'a' + next_random() % 26;
	return to;
}

static noinline void make_text(void)
{
	unsigned char *to = text;

	while (to < text + SIZE - LONGEST) {
		to = put_name(to);
		to = put(to, " = ");
		to = put_name(to);
		to = put(to, " + ");
		*to++ = '1' + next_random() % 9;
		*to++ = '0' + next_random() % 10;
		if (!(next_random() % 16))
			to = put(to, " # more");
		if (!(next_random() % 16))
			to = put(to, " \"of\\tit\"");
		*to++ = '\n';
	}
	*to = 0;
}

static noinline enum token read_string(void)
{
	for (at++; *at != '"'; at++) {
		if (*at == 0 || *at == '\n')
			return BAD_STRING;
		if (*at == '\\') {
			at++;
			if (*at != 't' && *at != 'n' && *at != '"' && *at != '\\')
				return BAD_STRING;
		}
		value = value * 31 + *at;
	}
	at++;
	strings++;
	return STRING;
}

static noinline enum token read_number(void)
{
	unsigned int base = 10, digit, digits = 0;

	if (at[0] == '0' && at[1] == 'x') {
		base = 16;
		at += 2;
	}
	for (;; at++) {
		if (*at == '_') {
			if (!digits)
				return BAD_NUMBER;
			continue;
		}
		if (*at >= 'a' && *at <= 'f')
			digit = *at - 'a' + 10;
		else if (*at >= 'A' && *at <= 'F')
			digit = *at - 'A' + 10;
		else if (*at >= '0' && *at <= '9')
			digit = *at - '0';
		else
			break;
		if (digit >= base)
			return BAD_NUMBER;
		if (value > (~0UL - digit) / 16)
			return BAD_NUMBER;
		value = value * base + digit;
		digits++;
	}
	return digits ? NUMBER : BAD_NUMBER;
}

static noinline enum token read_name(void)
{
	unsigned int length = 0;

	for (;; at++) {
		if (*at == '$' || *at == '@')
			return BAD_NAME;
		if (*at >= 0x80) {
			if ((*at & 0xc0) == 0x80 && !length)
				return BAD_NAME;
		} else if (*at >= 'A' && *at <= 'Z') {
			value = value * 31 + (*at | 0x20);
			length++;
			continue;
		} else if (*at == '_' || (*at >= '0' && *at <= '9')) {
			if (!length)
				return BAD_NAME;
		} else if (*at < 'a' || *at > 'z') {
			break;
		}
		value = value * 31 + *at;
		if (++length > LONGEST)
			return BAD_NAME;
	}
	value %= NAMES;
	return NAME;
}

static noinline enum token read_token(void)
{
	value = 0;
	for (;; at++) {
		if (*at == 0)
			return END;
		if (*at < ' ' && *at != '\n' && *at != '\t')
			return BAD_CONTROL;
		if (*at == '#') {
			comments++;
			while (*at && *at != '\n')
				at++;
			at--;
			continue;
		}
		if (*at == '\n') {
			lines++;
			value = 0;
			continue;
		}
		if (*at != ' ' && *at != '\t')
			break;
	}
	if (*at == '"')
		return read_string();
	if (*at >= '0' && *at <= '9')
		return read_number();
	if ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_')
		return read_name();
	if (*at != '=' && *at != '+' && *at != '-' && *at != '*')
		return BAD_SIGN;
	value = *at++;
	return SIGN;
}

static noinline void read_text(void)
{
	unsigned long name = 0, sign = 0;
	enum token token;

	at = text;
	while ((token = read_token()) != END) {
		if (token >= BAD_CONTROL) {
			errors++;
			while (*at && *at != '\n')
				at++;
		} else if (token == STRING) {
			sum ^= value;
		} else if (token == SIGN) {
			if (sign == '-' || sign == '*')
				errors++;
			sign = value;
		} else if (token == NUMBER) {
			if (sign == '-')
				values[name] -= value;
			else if (sign == '*')
				values[name] *= value;
			else
				values[name] += value;
			sign = 0;
		} else {
			if (sign == '=')
				values[name] = values[value];
			else
				name = value;
			sum += values[value];
		}
	}
}

void _start(void)
{
	int round;

	make_text();
	for (round = 0; round < ROUNDS; round++)
		read_text();
	asm volatile("syscall" : : "a" (231), "D" (errors || !lines || !comments || !strings),
		     "m" (sum), "m" (values) :
		     "rcx", "r11", "memory");
	__builtin_unreachable();
}
