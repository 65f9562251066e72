CREATE DOMAIN "D" AS
CLASS::A(a:Strng FROM JSON '$.a', b:Integer FRM CSS ',)', c Decimal FROM JSON '$.c', d:Integer FROM JSON 'x'),
CLASS::B EACH JSON '$' KEY a, b (a:String FROM JSON '$.a', b:Strng FROM JSON '$.b')
CLASS::C(c:Intger FROM JSON '$.c');
CREATE SOURCE "s" OF A AT 'https://example.org/';
CREATE DOMAIN "E" AS CLASS:B(a:Strng);
