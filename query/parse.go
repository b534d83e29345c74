package query

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads a query. The error is a *SyntaxError.
func Parse(text string) (Query, error) {
	if len(text) > MaxText {
		return Query{}, &SyntaxError{
			Pos: MaxText + 1, Expected: "the end", Found: "more",
			Reason: fmt.Sprintf("the query has %d bytes, %d are allowed", len(text), MaxText),
		}
	}
	p := parser{lexer{text: text}}
	p.skip(space)
	start := p.text[p.off:]
	point := strings.HasPrefix(start, "P:")
	if !point && !strings.HasPrefix(start, "R:") {
		p.next()
		return Query{}, p.expected("P: or R:")
	}
	p.off += len("P:")
	p.next()
	if point {
		return p.point()
	}
	return p.ranges()
}

type parser struct{ lexer }

// point reads what follows P:.
func (p *parser) point() (Query, error) {
	id, err := p.id("a vector id")
	if err != nil {
		return Query{}, err
	}
	if p.tok.kind != end {
		return Query{}, p.expected("the end")
	}
	return Query{Point: true, Ranges: []Range{{Spans: []Span{{id, id}}}}}, nil
}

// ranges reads what follows R:.
func (p *parser) ranges() (Query, error) {
	var q Query
	for {
		r, after, err := p.oneRange()
		if err != nil {
			return Query{}, err
		}
		q.Ranges = append(q.Ranges, r)
		if p.tok.kind == end {
			return q, nil
		}
		if !p.tok.is('&') {
			return Query{}, p.expected("%s& or the end", after)
		}
		p.next()
	}
}

// oneRange reads one range; after is what could also have come behind it.
func (p *parser) oneRange() (r Range, after string, err error) {
	switch {
	case p.tok.is('*'):
		p.next()
		return Range{All: true}, "", nil
	case p.tok.is('{'):
		p.next()
		if r.Spans, after, err = p.items("a vector id or ["); err != nil {
			return r, "", err
		}
		if !p.tok.is('}') {
			return r, "", p.expected("%s or }", strings.TrimSuffix(after, ", "))
		}
		p.next()
		return r, "", nil
	}
	r.Spans, after, err = p.items("a vector id, [, { or *")
	return r, after, err
}

// items reads spans with commas between; first is what the first can be.
func (p *parser) items(first string) (spans []Span, after string, err error) {
	for {
		span, after, err := p.item(first)
		if err != nil {
			return nil, "", err
		}
		spans = append(spans, span)
		if !p.tok.is(',') {
			return spans, after + "a comma, ", nil
		}
		p.next()
		first = "a vector id or ["
	}
}

// item reads one span.
func (p *parser) item(what string) (s Span, after string, err error) {
	if p.tok.is('[') {
		s, err = p.brackets()
		return s, "", err
	}
	if s.Lo, err = p.id(what); err != nil {
		return s, "", err
	}
	if !p.tok.is('-') {
		s.Hi = s.Lo
		return s, "-, ", nil
	}
	p.next()
	s.Hi, err = p.high(s.Lo)
	return s, "", err
}

// brackets reads [lo,hi].
func (p *parser) brackets() (s Span, err error) {
	p.next()
	if s.Lo, err = p.id("a vector id"); err != nil {
		return s, err
	}
	if !p.tok.is(',') {
		return s, p.expected("a comma and the last id of the range")
	}
	p.next()
	if s.Hi, err = p.high(s.Lo); err != nil {
		return s, err
	}
	if !p.tok.is(']') {
		return s, p.expected("]")
	}
	p.next()
	return s, nil
}

// high reads the last id of a span from lo.
func (p *parser) high(lo uint64) (uint64, error) {
	at := p.tok
	hi, err := p.id("a vector id")
	if err == nil && hi < lo {
		err = &SyntaxError{
			Pos: at.pos, Expected: fmt.Sprintf("an id of %d or more", lo), Found: at.found(),
			Reason: fmt.Sprintf("the range %d-%d ends before it begins", lo, hi),
		}
	}
	return hi, err
}

// id reads a vector id.
func (p *parser) id(what string) (uint64, error) {
	switch p.tok.kind {
	case number:
		id, err := strconv.ParseUint(p.tok.text, 10, 64)
		if err != nil {
			return 0, &SyntaxError{
				Pos: p.tok.pos, Expected: "an id up to 18446744073709551615", Found: p.tok.found(),
				Reason: "the number " + p.tok.found() + " is too large",
			}
		}
		p.next()
		return id, nil
	case word, quoted:
		return 0, p.name(what)
	}
	return 0, p.expected("%s", what)
}

// name reads LEVEL=MEMBER, LEVEL={MEMBER,...} or LEVEL=*, as far as to know that
// it is one.
func (p *parser) name(what string) error {
	level := p.tok
	err := p.expected("%s", what)
	p.next()
	if level.kind == quoted || p.tok.is('=') {
		return &SyntaxError{Pos: level.pos, Expected: what, Found: level.found(), Reason: "names are not supported yet"}
	}
	return err
}
