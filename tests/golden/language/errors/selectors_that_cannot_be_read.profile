CREATE DOMAIN "D" AS
CLASS::A(a:String FROM CSS 'h1 >', b:String FROM XPATH '//p[', c:String FROM META 'og: title')
CLASS::B(a:String FROM JSON '$.a[', b:String FROM JSON '$[?nope(@)]');
