CREATE DOMAIN "D" AS
CLASS::A(a:String FROM CSS 'h1 >', b:String FROM XPATH '//p[', c:String FROM META 'og: title')
CLASS::C(a:String FROM JSONLD '$.a[', b:String FROM JSONLD 'name', c:Decimal FROM PRICE 'prise', d:Decimal FROM PRICE '')
CLASS::D EACH PRICE 'price' KEY a (a:String FROM CSS 'b')
CLASS::E EACH JSONLD '$[*]' KEY a (a:String FROM JSONLD '$.a', b:String FROM CSS 'b')
CLASS::F(a:String FROM JSONLD '$.a', b:String FROM JSON '$.b')
CLASS::B(a:String FROM JSON '$.a[', b:String FROM JSON '$[?nope(@)]');
