CREATE DOMAIN "D" AS
CLASS::A(a:String FROM CSS 'h1', b:String FROM XPATH '//p');
